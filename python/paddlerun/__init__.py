"""paddlerun: a launcher for PaddlePaddle's training processes."""
