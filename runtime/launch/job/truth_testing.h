/* What the launcher of Paddle 3.3.1 gave its children, recorded by running it: command line,
 * machine, the ports it found, what the nodes sent one another; and the variables it set.  Left
 * out: OMP_NUM_THREADS and CUSTOM_DEVICE_ROOT, which importing Paddle sets, and
 * PADDLE_BACKUP_ENV_PATH, a dump of the whole environment that this launcher does not write. Added:
 * PADDLE_HETER_TRAINER_IP_PORT_LIST beside 3.3.1's names for it; programs of 2.0 read it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct job_truth {
    const char *name;
    const char *words[12]; /* before the script */
    const char *visible, *ip, *pod, *scratch;
    uint16_t ports[8];
    const char *values[4]; /* none: this node's own */
    size_t self, process;
    const char *all; /* lines of every recorded child of the command; NULL: only one was recorded */
    const char *expect; /* of this child */
};

static const char servers[] = "PADDLE_GLOO_FS_PATH=/tmp/tmposidj65h\n"
                              "PADDLE_GLOO_HTTP_ENDPOINT=127.0.0.1:57221\n"
                              "PADDLE_GLOO_RENDEZVOUS=3\n"
                              "PADDLE_LOG_DIR=/d/log\n"
                              "PADDLE_NNODES=1\n"
                              "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:57218\n"
                              "PADDLE_TRAINERS_NUM=2\n"
                              "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:57219,127.0.0.1:57220\n"
                              "PADDLE_WITH_GLOO=1\n"
                              "POD_IP=127.0.0.1\n"
                              "POD_NAME=nykogd\n";

static const char lists[] =
    "PADDLE_GLOO_FS_PATH=/tmp/tmpqlzj7on6\n"
    "PADDLE_GLOO_HTTP_ENDPOINT=127.0.0.2:6767\n"
    "PADDLE_GLOO_RENDEZVOUS=3\n"
    "PADDLE_LOG_DIR=/d/log\n"
    "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.2:8000,127.0.0.3:8000\n"
    "PADDLE_TRAINERS_NUM=3\n"
    "PADDLE_TRAINER_ENDPOINTS=127.0.0.2:8001,127.0.0.3:8001,127.0.0.3:8002\n"
    "PADDLE_WITH_GLOO=1\n"
    "POD_IP=127.0.0.3\n"
    "POD_NAME=jjnuvu\n";

static const char heterogeneous_workers[] =
    "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:54325\n"
    "PADDLE_GLOO_FS_PATH=/tmp/tmpd7un4406\n"
    "PADDLE_GLOO_HTTP_ENDPOINT=127.0.0.1:49103\n"
    "PADDLE_GLOO_RENDEZVOUS=3\n"
    "PADDLE_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:54325\n"
    "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:39565\n"
    "PADDLE_TRAINERS_NUM=2\n"
    "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:34449,127.0.0.1:37367\n"
    "PADDLE_WITH_GLOO=0\n"
    "POD_IP=127.0.0.1\n";

static const struct job_truth job_truths[] = {
    {.name = "one node",
        .words = {"--nproc_per_node", "2"},
        .ip = "127.0.0.1",
        .pod = "ehgune",
        .ports = {61210, 61211, 61212},
        .process = 1,
        .expect = "PADDLE_AUTO_CLUSTER=0\n"
                  "PADDLE_CURRENT_ENDPOINT=127.0.0.1:61212\n"
                  "PADDLE_DISTRI_BACKEND=gloo\n"
                  "PADDLE_GLOBAL_RANK=1\n"
                  "PADDLE_GLOBAL_SIZE=2\n"
                  "PADDLE_LOCAL_RANK=1\n"
                  "PADDLE_LOCAL_SIZE=2\n"
                  "PADDLE_LOG_DIR=/d/log\n"
                  "PADDLE_MASTER=127.0.0.1:61210\n"
                  "PADDLE_NNODES=1\n"
                  "PADDLE_RANK_IN_NODE=1\n"
                  "PADDLE_TRAINERS_NUM=2\n"
                  "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:61211,127.0.0.1:61212\n"
                  "PADDLE_TRAINER_ID=1\n"
                  "POD_NAME=ehgune\n"},
    {.name = "servers: a server",
        .words = {"--run_mode", "ps", "--server_num", "1", "--trainer_num", "2"},
        .ip = "127.0.0.1",
        .pod = "nykogd",
        .scratch = "/tmp/tmposidj65h",
        .ports = {57218, 57219, 57220, 57221},
        .all = servers,
        .expect = "PADDLE_PORT=57218\n"
                  "PADDLE_ROLE=PSERVER\n"
                  "TRAINING_ROLE=PSERVER\n"},
    {.name = "servers: a trainer",
        .words = {"--run_mode", "ps", "--server_num", "1", "--trainer_num", "2"},
        .ip = "127.0.0.1",
        .pod = "nykogd",
        .scratch = "/tmp/tmposidj65h",
        .ports = {57218, 57219, 57220, 57221},
        .process = 2,
        .all = servers,
        .expect = "PADDLE_PORT=57220\n"
                  "PADDLE_ROLE=TRAINER\n"
                  "PADDLE_TRAINER_ID=1\n"
                  "TRAINING_ROLE=TRAINER\n"},
    {.name = "rpc",
        .words = {"--run_mode", "rpc", "--nproc_per_node", "2"},
        .ip = "127.0.0.1",
        .pod = "itnfsc",
        .ports = {39423, 39424, 39425},
        .process = 1,
        .expect = "PADDLE_LOG_DIR=/d/log\n"
                  "PADDLE_MASTER_ENDPOINT=127.0.0.1:39423\n"
                  "PADDLE_TRAINERS_NUM=2\n"
                  "PADDLE_TRAINER_ID=1\n"
                  "PADDLE_WORKER_ENDPOINT=127.0.0.1:39425\n"
                  "POD_NAME=itnfsc\n"},
    {.name = "devices by their absolute ids",
        .words = {"--devices", "4,5"},
        .visible = "4,5",
        .ip = "127.0.0.1",
        .pod = "wgvjxt",
        .ports = {43587, 43588, 43589},
        .process = 1,
        .expect = "FLAGS_selected_gpus=1\n"
                  "PADDLE_AUTO_CLUSTER=0\n"
                  "PADDLE_CURRENT_ENDPOINT=127.0.0.1:43589\n"
                  "PADDLE_GLOBAL_RANK=1\n"
                  "PADDLE_GLOBAL_SIZE=2\n"
                  "PADDLE_LOCAL_RANK=1\n"
                  "PADDLE_LOCAL_SIZE=2\n"
                  "PADDLE_LOG_DIR=/d/log\n"
                  "PADDLE_MASTER=127.0.0.1:43587\n"
                  "PADDLE_NNODES=1\n"
                  "PADDLE_RANK_IN_NODE=1\n"
                  "PADDLE_TRAINERS_NUM=2\n"
                  "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:43588,127.0.0.1:43589\n"
                  "PADDLE_TRAINER_ID=1\n"
                  "POD_NAME=wgvjxt\n"},
    {.name = "all visible devices for one process",
        .words = {"--nproc_per_node", "1"},
        .visible = "4,5",
        .ip = "127.0.0.1",
        .pod = "cweagw",
        .ports = {57511, 57512},
        .expect = "FLAGS_selected_gpus=0,1\n"
                  "PADDLE_AUTO_CLUSTER=0\n"
                  "PADDLE_CURRENT_ENDPOINT=127.0.0.1:57512\n"
                  "PADDLE_GLOBAL_RANK=0\n"
                  "PADDLE_GLOBAL_SIZE=1\n"
                  "PADDLE_LOCAL_RANK=0\n"
                  "PADDLE_LOCAL_SIZE=1\n"
                  "PADDLE_LOG_DIR=/d/log\n"
                  "PADDLE_MASTER=127.0.0.1:57511\n"
                  "PADDLE_NNODES=1\n"
                  "PADDLE_RANK_IN_NODE=0\n"
                  "PADDLE_TRAINERS_NUM=1\n"
                  "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:57512\n"
                  "PADDLE_TRAINER_ID=0\n"
                  "POD_NAME=cweagw\n"},
    {.name = "--ips",
        .words = {"--ips", "127.0.0.2,127.0.0.3", "--nproc_per_node", "2"},
        .ip = "127.0.0.3",
        .pod = "qguywf",
        .process = 1,
        .expect =
            "PADDLE_AUTO_CLUSTER=0\n"
            "PADDLE_CURRENT_ENDPOINT=127.0.0.3:6071\n"
            "PADDLE_DISTRI_BACKEND=gloo\n"
            "PADDLE_GLOBAL_RANK=3\n"
            "PADDLE_GLOBAL_SIZE=4\n"
            "PADDLE_LOCAL_RANK=1\n"
            "PADDLE_LOCAL_SIZE=2\n"
            "PADDLE_LOG_DIR=/d/log\n"
            "PADDLE_MASTER=127.0.0.2:6070\n"
            "PADDLE_NNODES=2\n"
            "PADDLE_RANK_IN_NODE=1\n"
            "PADDLE_TRAINERS_NUM=4\n"
            "PADDLE_TRAINER_ENDPOINTS=127.0.0.2:6070,127.0.0.2:6071,127.0.0.3:6070,127.0.0.3:6071\n"
            "PADDLE_TRAINER_ID=3\n"
            "POD_NAME=qguywf\n"},
    {.name = "lists: a server",
        .words = {"--servers", "127.0.0.2:8000,127.0.0.3:8000", "--trainers",
            "127.0.0.2:8001,127.0.0.3:8001,127.0.0.3:8002"},
        .ip = "127.0.0.3",
        .pod = "jjnuvu",
        .scratch = "/tmp/tmpqlzj7on6",
        .all = lists,
        .expect = "PADDLE_PORT=8000\n"
                  "PADDLE_ROLE=PSERVER\n"
                  "TRAINING_ROLE=PSERVER\n"},
    {.name = "lists: a trainer",
        .words = {"--servers", "127.0.0.2:8000,127.0.0.3:8000", "--trainers",
            "127.0.0.2:8001,127.0.0.3:8001,127.0.0.3:8002"},
        .ip = "127.0.0.3",
        .pod = "jjnuvu",
        .scratch = "/tmp/tmpqlzj7on6",
        .process = 2,
        .all = lists,
        .expect = "PADDLE_PORT=8002\n"
                  "PADDLE_ROLE=TRAINER\n"
                  "PADDLE_TRAINER_ID=2\n"
                  "TRAINING_ROLE=TRAINER\n"},
    {.name = "heterogeneous workers: a server",
        .words = {"--server_num=1", "--worker_num=2", "--heter_worker_num=1",
            "--heter_devices=cpu"},
        .ip = "127.0.0.1",
        .pod = "unused",
        .scratch = "/tmp/tmpd7un4406",
        .ports = {39565, 34449, 37367, 54325, 49103},
        .all = heterogeneous_workers,
        .expect = "PADDLE_COORDINATOR_ENDPOINTS=\n"
                  "PADDLE_PORT=39565\n"
                  "TRAINING_ROLE=PSERVER\n"},
    {.name = "heterogeneous workers: a trainer",
        .words = {"--server_num=1", "--worker_num=2", "--heter_worker_num=1",
            "--heter_devices=cpu"},
        .ip = "127.0.0.1",
        .pod = "unused",
        .scratch = "/tmp/tmpd7un4406",
        .ports = {39565, 34449, 37367, 54325, 49103},
        .process = 2,
        .all = heterogeneous_workers,
        .expect = "CUDA_VISIBLE_DEVICES=0\n"
                  "FLAGS_selected_gpus=0\n"
                  "FLAGS_selected_xpus=0\n"
                  "HETER_DEVICE_TYPE=cpu\n"
                  "PADDLE_COORDINATOR_ENDPOINTS=\n"
                  "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:54325\n"
                  "PADDLE_PORT=37367\n"
                  "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=\n"
                  "PADDLE_STAGE_TRAINERS_NUM=[2, 1]\n"
                  "PADDLE_TRAINER_ID=1\n"
                  "STAGE_ID=1\n"
                  "STAGE_NUM=2\n"
                  "TRAINING_ROLE=TRAINER\n"
                  "XPU_VISIBLE_DEVICES=0\n"},
    {.name = "heterogeneous workers: a worker",
        .words = {"--server_num=1", "--worker_num=2", "--heter_worker_num=1",
            "--heter_devices=cpu"},
        .ip = "127.0.0.1",
        .pod = "unused",
        .scratch = "/tmp/tmpd7un4406",
        .ports = {39565, 34449, 37367, 54325, 49103},
        .process = 3,
        .all = heterogeneous_workers,
        .expect = "CUDA_VISIBLE_DEVICES=0\n"
                  "FLAGS_selected_gpus=0\n"
                  "FLAGS_selected_xpus=0\n"
                  "HETER_DEVICE_TYPE=cpu\n"
                  "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=\n"
                  "PADDLE_PORT=54325\n"
                  "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:34449,127.0.0.1:37367\n"
                  "PADDLE_STAGE_TRAINERS_NUM=[2, 1]\n"
                  "STAGE_ID=2\n"
                  "STAGE_NUM=2\n"
                  "TRAINING_ROLE=HETER_TRAINER\n"
                  "XPU_VISIBLE_DEVICES=0\n"},
    {.name = "two nodes: the first",
        .words = {"--master", "127.0.0.2:8790", "--nnodes", "2", "--nproc_per_node", "2"},
        .ip = "127.0.0.2",
        .pod = "vrgcjk",
        .ports = {50010, 50011, 50012},
        .values = {"{\"name\": \"vrgcjk\", \"rank\": 0, \"replicas\": 2, \"dtype\": \"cpu\", "
                   "\"candidate\": \"127.0.0.2:50010\", \"endpoints\": "
                   "\"127.0.0.2:50011,127.0.0.2:50012\"}",
            "{\"name\": \"utkjrx\", \"rank\": 1, \"replicas\": 1, \"dtype\": \"cpu\", "
            "\"candidate\": \"127.0.0.3:38417\", \"endpoints\": \"127.0.0.3:38418\"}"},
        .process = 1,
        .expect = "PADDLE_AUTO_CLUSTER=0\n"
                  "PADDLE_CURRENT_ENDPOINT=127.0.0.2:50012\n"
                  "PADDLE_DISTRI_BACKEND=gloo\n"
                  "PADDLE_GLOBAL_RANK=1\n"
                  "PADDLE_GLOBAL_SIZE=3\n"
                  "PADDLE_LOCAL_RANK=1\n"
                  "PADDLE_LOCAL_SIZE=2\n"
                  "PADDLE_LOG_DIR=/d/log\n"
                  "PADDLE_MASTER=127.0.0.2:50010\n"
                  "PADDLE_NNODES=2\n"
                  "PADDLE_RANK_IN_NODE=1\n"
                  "PADDLE_TRAINERS_NUM=3\n"
                  "PADDLE_TRAINER_ENDPOINTS=127.0.0.2:50011,127.0.0.2:50012,127.0.0.3:38418\n"
                  "PADDLE_TRAINER_ID=1\n"
                  "POD_NAME=vrgcjk\n"},
    {.name = "two nodes: the second",
        .words = {"--master", "127.0.0.2:8790", "--nnodes", "2"},
        .ip = "127.0.0.3",
        .pod = "utkjrx",
        .ports = {38417, 38418},
        .values = {"{\"name\": \"vrgcjk\", \"rank\": 0, \"replicas\": 2, \"dtype\": \"cpu\", "
                   "\"candidate\": \"127.0.0.2:50010\", \"endpoints\": "
                   "\"127.0.0.2:50011,127.0.0.2:50012\"}",
            "{\"name\": \"utkjrx\", \"rank\": 1, \"replicas\": 1, \"dtype\": \"cpu\", "
            "\"candidate\": \"127.0.0.3:38417\", \"endpoints\": \"127.0.0.3:38418\"}"},
        .self = 1,
        .expect = "PADDLE_AUTO_CLUSTER=0\n"
                  "PADDLE_CURRENT_ENDPOINT=127.0.0.3:38418\n"
                  "PADDLE_DISTRI_BACKEND=gloo\n"
                  "PADDLE_GLOBAL_RANK=2\n"
                  "PADDLE_GLOBAL_SIZE=3\n"
                  "PADDLE_LOCAL_RANK=0\n"
                  "PADDLE_LOCAL_SIZE=1\n"
                  "PADDLE_LOG_DIR=/d/log\n"
                  "PADDLE_MASTER=127.0.0.2:50010\n"
                  "PADDLE_NNODES=2\n"
                  "PADDLE_RANK_IN_NODE=0\n"
                  "PADDLE_TRAINERS_NUM=3\n"
                  "PADDLE_TRAINER_ENDPOINTS=127.0.0.2:50011,127.0.0.2:50012,127.0.0.3:38418\n"
                  "PADDLE_TRAINER_ID=2\n"
                  "POD_NAME=utkjrx\n"},
};
