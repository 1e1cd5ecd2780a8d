/* paddle-pserver: `paddle pserver` of Paddle 0.8 to 0.12, by this runtime's parameter server.
 *
 * Given ports and a number of trainers, no list: one server listens on each interface and port,
 * and has its place in the job from the first trainer.  Unlike the old one it ends by itself when
 * all trainers have finished, and says which trainer was lost when one was.
 * Exit codes: 0 done, 2 wrong flags, 1 anything else, 128 + signal. */
#pragma once

/* The program; its exit code. */
int pserver_run(int argc, char **argv);
