/* What the launcher of Paddle 2.6.2 gave its children where there are several stages of
 * heterogeneous workers, which 3.3.1 has no more: recorded and cut as in truth_testing.h. */
#pragma once

#include "runtime/launch/job/truth_testing.h"

static const char three_stages[] =
    "CUDA_VISIBLE_DEVICES=0\n"
    "FLAGS_selected_gpus=0\n"
    "FLAGS_selected_xpus=0\n"
    "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:33571,127.0.0.1:33275,127.0.0.1:55463\n"
    "PADDLE_GLOO_FS_PATH=/tmp/tmp8c6tpnoi\n"
    "PADDLE_GLOO_HTTP_ENDPOINT=127.0.0.1:46051\n"
    "PADDLE_GLOO_RENDEZVOUS=3\n"
    "PADDLE_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:33571,127.0.0.1:33275,127.0.0.1:55463\n"
    "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:35035\n"
    "PADDLE_STAGE_TRAINERS_NUM=[2, 2, 1]\n"
    "PADDLE_TRAINERS_NUM=2\n"
    "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:40681,127.0.0.1:55711\n"
    "PADDLE_WITH_GLOO=0\n"
    "POD_IP=127.0.0.1\n"
    "STAGE_NUM=3\n"
    "XPU_VISIBLE_DEVICES=0\n";

/* How that launcher was called, and what the machine gave it. */
#define THREE_STAGES_RUN                                                                           \
    .words = {"--server_num=1", "--worker_num=2", "--heter_worker_num=2;1",                        \
        "--heter_devices=cpu;gpu"},                                                                \
    .ip = "127.0.0.1", .pod = "unused", .scratch = "/tmp/tmp8c6tpnoi",                             \
    .ports = {35035, 40681, 55711, 33571, 33275, 55463, 46051}, .all = three_stages

#define STAGES_OF_LISTS_WORDS                                                                      \
    {                                                                                              \
        "--servers=127.0.0.2:8000,127.0.0.3:8000", "--workers=127.0.0.2:8001,127.0.0.3:8001",      \
            "--heter_workers=127.0.0.2:8002,127.0.0.3:8002;127.0.0.3:8003",                        \
            "--heter_devices=cpu;gpu", "--http_port=7300"                                          \
    }

static const char stages_of_lists[] =
    "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST=127.0.0.2:8002,127.0.0.3:8002,127.0.0.3:8003\n"
    "PADDLE_GLOO_HTTP_ENDPOINT=127.0.0.2:7300\n"
    "PADDLE_GLOO_RENDEZVOUS=3\n"
    "PADDLE_HETER_TRAINER_IP_PORT_LIST=127.0.0.2:8002,127.0.0.3:8002,127.0.0.3:8003\n"
    "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.2:8000,127.0.0.3:8000\n"
    "PADDLE_TRAINERS_NUM=2\n"
    "PADDLE_TRAINER_ENDPOINTS=127.0.0.2:8001,127.0.0.3:8001\n"
    "PADDLE_WITH_GLOO=0\n";

static const struct job_truth job_truths_stages[] = {
    {.name = "three stages: a trainer",
        THREE_STAGES_RUN,
        .process = 2,
        .expect = "HETER_DEVICE_TYPE=cpu\n"
                  "PADDLE_COORDINATOR_ENDPOINTS=\n"
                  "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:33571,127.0.0.1:33275\n"
                  "PADDLE_PORT=55711\n"
                  "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=\n"
                  "PADDLE_TRAINER_ID=1\n"
                  "STAGE_ID=1\n"
                  "TRAINING_ROLE=TRAINER\n"},
    {.name = "three stages: a worker of the second",
        THREE_STAGES_RUN,
        .process = 4,
        .expect = "HETER_DEVICE_TYPE=cpu\n"
                  "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:55463\n"
                  "PADDLE_PORT=33275\n"
                  "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:40681,127.0.0.1:55711\n"
                  "STAGE_ID=2\n"
                  "TRAINING_ROLE=HETER_TRAINER\n"},
    {.name = "three stages: the worker of the third",
        THREE_STAGES_RUN,
        .process = 5,
        .expect = "HETER_DEVICE_TYPE=gpu\n"
                  "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=\n"
                  "PADDLE_PORT=55463\n"
                  "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:33571,127.0.0.1:33275\n"
                  "STAGE_ID=3\n"
                  "TRAINING_ROLE=HETER_TRAINER\n"},
    {.name = "four stages: a worker of the third",
        .words = {"--server_num=1", "--worker_num=1", "--heter_worker_num=1;2;1",
            "--heter_devices=cpu;gpu;xpu"},
        .ip = "127.0.0.1",
        .pod = "unused",
        .scratch = "/tmp/tmp6ir9ysxx",
        .ports = {53801, 54503, 48403, 59569, 42513, 44447, 40533},
        .process = 4,
        .expect = "CUDA_VISIBLE_DEVICES=0\n"
                  "FLAGS_selected_gpus=0\n"
                  "FLAGS_selected_xpus=0\n"
                  "HETER_DEVICE_TYPE=gpu\n"
                  "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:48403,127.0.0.1:59569,127.0.0.1:"
                  "42513,127.0.0.1:44447\n"
                  "PADDLE_GLOO_FS_PATH=/tmp/tmp6ir9ysxx\n"
                  "PADDLE_GLOO_HTTP_ENDPOINT=127.0.0.1:40533\n"
                  "PADDLE_GLOO_RENDEZVOUS=3\n"
                  "PADDLE_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:48403,127.0.0.1:59569,127.0.0.1:"
                  "42513,127.0.0.1:44447\n"
                  "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:44447\n"
                  "PADDLE_PORT=42513\n"
                  "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:48403\n"
                  "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:53801\n"
                  "PADDLE_STAGE_TRAINERS_NUM=[1, 1, 2, 1]\n"
                  "PADDLE_TRAINERS_NUM=1\n"
                  "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:54503\n"
                  "PADDLE_WITH_GLOO=0\n"
                  "POD_IP=127.0.0.1\n"
                  "STAGE_ID=3\n"
                  "STAGE_NUM=4\n"
                  "TRAINING_ROLE=HETER_TRAINER\n"
                  "XPU_VISIBLE_DEVICES=0\n"},
    {.name = "stages of lists: a server",
        .words = STAGES_OF_LISTS_WORDS,
        .ip = "127.0.0.2",
        .pod = "unused",
        .scratch = "/tmp/tmpe19cyr47",
        .all = stages_of_lists,
        .expect = "PADDLE_COORDINATOR_ENDPOINTS=\n"
                  "PADDLE_GLOO_FS_PATH=/tmp/tmpe19cyr47\n"
                  "PADDLE_PORT=8000\n"
                  "POD_IP=127.0.0.2\n"
                  "TRAINING_ROLE=PSERVER\n"},
    {.name = "stages of lists: a trainer",
        .words = STAGES_OF_LISTS_WORDS,
        .ip = "127.0.0.3",
        .pod = "unused",
        .scratch = "/tmp/tmpth257b6h",
        .process = 1,
        .all = stages_of_lists,
        .expect = "CUDA_VISIBLE_DEVICES=0\n"
                  "FLAGS_selected_gpus=0\n"
                  "FLAGS_selected_xpus=0\n"
                  "HETER_DEVICE_TYPE=cpu\n"
                  "PADDLE_COORDINATOR_ENDPOINTS=\n"
                  "PADDLE_GLOO_FS_PATH=/tmp/tmpth257b6h\n"
                  "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=127.0.0.2:8002,127.0.0.3:8002\n"
                  "PADDLE_PORT=8001\n"
                  "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=\n"
                  "PADDLE_STAGE_TRAINERS_NUM=[2, 2, 1]\n"
                  "PADDLE_TRAINER_ID=1\n"
                  "POD_IP=127.0.0.3\n"
                  "STAGE_ID=1\n"
                  "STAGE_NUM=3\n"
                  "TRAINING_ROLE=TRAINER\n"
                  "XPU_VISIBLE_DEVICES=0\n"},
    {.name = "stages of lists: a worker of the second",
        .words = STAGES_OF_LISTS_WORDS,
        .ip = "127.0.0.3",
        .pod = "unused",
        .scratch = "/tmp/tmpth257b6h",
        .process = 2,
        .all = stages_of_lists,
        .expect = "CUDA_VISIBLE_DEVICES=0\n"
                  "FLAGS_selected_gpus=0\n"
                  "FLAGS_selected_xpus=0\n"
                  "HETER_DEVICE_TYPE=cpu\n"
                  "PADDLE_GLOO_FS_PATH=/tmp/tmpth257b6h\n"
                  "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=127.0.0.3:8003\n"
                  "PADDLE_PORT=8002\n"
                  "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=127.0.0.2:8001,127.0.0.3:8001\n"
                  "PADDLE_STAGE_TRAINERS_NUM=[2, 2, 1]\n"
                  "POD_IP=127.0.0.3\n"
                  "STAGE_ID=2\n"
                  "STAGE_NUM=3\n"
                  "TRAINING_ROLE=HETER_TRAINER\n"
                  "XPU_VISIBLE_DEVICES=0\n"},
    {.name = "stages of lists: the worker of the third",
        .words = STAGES_OF_LISTS_WORDS,
        .ip = "127.0.0.3",
        .pod = "unused",
        .scratch = "/tmp/tmpth257b6h",
        .process = 3,
        .all = stages_of_lists,
        .expect = "CUDA_VISIBLE_DEVICES=0\n"
                  "FLAGS_selected_gpus=0\n"
                  "FLAGS_selected_xpus=0\n"
                  "HETER_DEVICE_TYPE=gpu\n"
                  "PADDLE_GLOO_FS_PATH=/tmp/tmpth257b6h\n"
                  "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=\n"
                  "PADDLE_PORT=8003\n"
                  "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=127.0.0.2:8002,127.0.0.3:8002\n"
                  "PADDLE_STAGE_TRAINERS_NUM=[2, 2, 1]\n"
                  "POD_IP=127.0.0.3\n"
                  "STAGE_ID=3\n"
                  "STAGE_NUM=3\n"
                  "TRAINING_ROLE=HETER_TRAINER\n"
                  "XPU_VISIBLE_DEVICES=0\n"},
};
