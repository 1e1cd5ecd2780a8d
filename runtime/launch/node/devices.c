/* The table of devices: how a launcher finds them, and what runs on them.  See devices.h.
 *
 * Variables and names of flags are those of Paddle's launcher and plugins, and of the vendors'
 * libraries; resources those of the vendors' device plugins. */
#include "runtime/launch/node/devices.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/contract.h"

enum { VARIABLES = 2 };

static const struct device_kind {
    const char *what;
    enum job_device device;
    const char *name;                /* of FLAGS_selected_<name>s, and of Paddle's plugin */
    const char *file;                /* of a device in /dev, before its number */
    const char *beside;              /* another file, without which those are of other devices */
    enum co_var variable[VARIABLES]; /* list visible ones; CO_VAR_COUNT: none */
    bool cuda;                       /* its Paddle also reads the GPUs' variable */
    const char *resource, *example, *paddle, *tried;
} kinds[] = {
    /* In this order variables are asked; Paddle asks for XPUs first. */
    {"Kunlun XPU", JOB_DEVICE_XPU, "xpu", "xpu", NULL,
        {CO_VAR_XPULINK_VISIBLE_DEVICES, CO_VAR_XPU_VISIBLE_DEVICES}, .cuda = true,
        .resource = "kunlunxin.com/xpu", .example = "xpu.yaml", .paddle = "`paddlepaddle-xpu`",
        .tried = "with a false `/dev`"},
    {"NVIDIA GPU", JOB_DEVICE_GPU, "gpu", "nvidia", NULL,
        {CO_VAR_CUDA_VISIBLE_DEVICES, CO_VAR_COUNT}, .resource = "nvidia.com/gpu",
        .example = "gpu.yaml", .paddle = "`paddlepaddle-gpu`",
        .tried =
            "one H200, driver 580, NCCL 2.28: launcher, `paddlert` with PyTorch 2.11, collectives "
            "of one rank (`make gpu-test`); several GPUs with stand-ins of driver and NCCL"},
    {"Hygon DCU", JOB_DEVICE_GPU, "gpu", "dri/renderD", "kfd",
        {CO_VAR_HIP_VISIBLE_DEVICES, CO_VAR_COUNT}, .cuda = true, .resource = "hygon.com/dcu",
        .example = "dcu.yaml", .paddle = "`paddlepaddle-dcu`", .tried = "with a false `/dev`"},
    {"Ascend NPU", JOB_DEVICE_CUSTOM, "npu", "davinci", NULL,
        {CO_VAR_NPU_VISIBLE_DEVICES, CO_VAR_ASCEND_RT_VISIBLE_DEVICES},
        .resource = "huawei.com/Ascend910", .example = "npu.yaml",
        .paddle = "`paddlepaddle` and the plugin `paddle-custom-npu`",
        .tried = "with a false `/dev`"},
    {"Cambricon MLU", JOB_DEVICE_CUSTOM, "mlu", "cambricon_dev", NULL,
        {CO_VAR_MLU_VISIBLE_DEVICES, CO_VAR_COUNT}, .resource = "cambricon.com/mlu",
        .example = "mlu.yaml", .paddle = "`paddlepaddle` and the plugin `paddle-custom-mlu`",
        .tried = "with a false `/dev`"},
    {"Enflame GCU", JOB_DEVICE_CUSTOM, "gcu", "gcu", NULL,
        {CO_VAR_TOPS_VISIBLE_DEVICES, CO_VAR_COUNT}, .resource = "enflame.com/gcu",
        .example = "gcu.yaml", .paddle = "`paddlepaddle` and the plugin `paddle-custom-gcu`",
        .tried = "with a false `/dev`"},
};

/* ---- files ------------------------------------------------------------------------------- */

static size_t count_files(const char *dev, const struct device_kind *k) {
    const char *slash = strrchr(k->file, '/');
    const char *prefix = slash ? slash + 1 : k->file;
    CO_AUTOFREE char *folder = co_xasprintf("%s/%.*s", dev, (int)(prefix - k->file), k->file);
    CO_AUTOFREE char *beside = co_xasprintf("%s/%s", dev, k->beside ? k->beside : "");
    DIR *dir = access(beside, F_OK) == 0 ? opendir(folder) : NULL;
    const size_t len = strlen(prefix);
    size_t n = 0;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        const char *rest = d->d_name + len;
        n += strncmp(d->d_name, prefix, len) == 0 && *rest &&
             rest[strspn(rest, "0123456789")] == '\0';
    }
    if (dir) {
        (void)closedir(dir);
    }
    return n;
}

/* ---- variables --------------------------------------------------------------------------- */

/* A number, or a UUID of a device or a part of one. */
static bool is_label(const char *item) {
    static const char *const uuids[] = {"GPU-", "MIG-", "DRS-"};
    bool known = *item && item[strspn(item, "0123456789")] == '\0';
    for (size_t i = 0; i < CO_ARRAY_LEN(uuids); i++) {
        known = known || strncmp(item, uuids[i], strlen(uuids[i])) == 0;
    }
    return known;
}

/* Takes what a variable lists.  As CUDA does, up to the first item that can be no device: "-1",
 * "none", "void" and "NoDevFiles" are ways to say that there is none. */
static void take_visible(struct job_node *n, const char *text) {
    CO_CLEANUP(options_list_done) struct options_list listed = {0};
    options_list_split(&listed, text);
    for (size_t i = 0; i < listed.n && is_label(listed.item[i]); i++) {
        options_list_add(&n->visible, listed.item[i]);
    }
}

/* The value of the first variable of a kind that is set; NULL: none.  "all" is as if it were not
 * set: nobody here knows how many these are. */
static const char *listed_by(const struct device_kind *k) {
    for (size_t i = 0; i < VARIABLES && k->variable[i] != CO_VAR_COUNT; i++) {
        const char *text = co_contract_getenv(k->variable[i]);
        if (text && strcmp(text, "all") != 0) {
            return text;
        }
    }
    return NULL;
}

static const struct device_kind *plugin_named(const char *name) {
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        if (kinds[i].device == JOB_DEVICE_CUSTOM && strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

/* The user names Paddle's plugin, which may be one without a row. */
static bool find_plugin(struct job_node *n) {
    const char *name = co_contract_getenv(CO_VAR_XCCL_BACKEND);
    if (!name || !*name) {
        return false;
    }
    CO_AUTOFREE char *variable = co_xasprintf("%s_VISIBLE_DEVICES", name);
    for (char *p = variable; *p; p++) {
        *p = (char)toupper((unsigned char)*p);
    }
    const struct device_kind *k = plugin_named(name);
    const char *listed = k ? listed_by(k) : co_contract_getenv_of(variable);
    n->device = JOB_DEVICE_CUSTOM;
    n->device_name = name;
    if (listed && strcmp(listed, "all") != 0) {
        take_visible(n, listed);
    }
    return true;
}

/* ---- both -------------------------------------------------------------------------------- */

static void take_kind(struct job_node *n, const struct device_kind *k) {
    n->device = k->device;
    n->device_name = k->device == JOB_DEVICE_CUSTOM ? k->name : NULL;
}

/* What the GPUs' variable means on this machine. */
static const struct device_kind *kind_here(const char *dev, const struct device_kind *k) {
    for (size_t i = 0; k->variable[0] == CO_VAR_CUDA_VISIBLE_DEVICES && i < CO_ARRAY_LEN(kinds) &&
                       count_files(dev, k) == 0;
         i++) {
        if (kinds[i].cuda && count_files(dev, &kinds[i])) {
            return &kinds[i];
        }
    }
    return k;
}

void node_devices_find(const char *dev, struct job_node *n) {
    const char *cuda = co_contract_getenv(CO_VAR_CUDA_VISIBLE_DEVICES);
    const bool no_cuda = cuda && strcmp(cuda, "all") != 0;
    if (find_plugin(n)) {
        return;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds) && n->visible.n == 0; i++) {
        const char *listed = listed_by(&kinds[i]);
        take_visible(n, listed ? listed : "");
        if (n->visible.n) {
            take_kind(n, kind_here(dev, &kinds[i]));
        }
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds) && n->visible.n == 0; i++) {
        bool hidden = listed_by(&kinds[i]) || (kinds[i].cuda && no_cuda);
        size_t count = hidden ? 0 : count_files(dev, &kinds[i]);
        for (size_t k = 0; k < count; k++) {
            options_list_add_own(&n->visible, co_xasprintf("%zu", k));
        }
        if (count) {
            take_kind(n, &kinds[i]);
        }
    }
}

/* ---- page -------------------------------------------------------------------------------- */

static int kind_row(struct co_buf *b, const struct device_kind *k, struct co_err *err) {
    CO_TRY(co_buf_addf(b, err, "| %s | `/dev/%sN`", k->what, k->file));
    CO_TRY(k->beside ? co_buf_addf(b, err, " and `/dev/%s`", k->beside) : 0);
    CO_TRY(co_buf_adds(b, " | ", err));
    for (size_t i = 0; i < VARIABLES && k->variable[i] != CO_VAR_COUNT; i++) {
        CO_TRY(co_buf_addf(b, err, "%s`%s`", i ? ", " : "", co_contract[k->variable[i]].name));
    }
    CO_TRY(
        k->cuda ? co_buf_addf(b, err, ", `%s`", co_contract[CO_VAR_CUDA_VISIBLE_DEVICES].name) : 0);
    CO_TRY(co_buf_addf(b, err, " | `%s%ss`", co_contract[CO_VAR_SELECTED_DEVICES].name, k->name));
    if (k->device == JOB_DEVICE_CUSTOM) {
        CO_TRY(co_buf_addf(b, err, ", `%s=%s`, `%s=xccl`", co_contract[CO_VAR_XCCL_BACKEND].name,
            k->name, co_contract[CO_VAR_DISTRI_BACKEND].name));
    }
    return co_buf_addf(b, err, " | `%s` | %s | [%s](../deploy/examples/paddle/%s) | %s |\n",
        k->resource, k->paddle, k->example, k->example, k->tried);
}

static const struct {
    const char *what, *cpu, *gpu, *others;
} programs[] = {
    {"your own program on Paddle, in collective mode", "yes", "yes",
        "yes, with Paddle of the table "
        "above"},
    {"your own program on PyTorch", "yes", "yes",
        "with PyTorch of its vendor; `paddlerun launch` sets "
        "`MASTER_ADDR`, `RANK` and the like"},
    {"parameter servers: tables, optimizers, checkpoints", "yes: memory and files of the servers",
        "no: `use_ps_gpu` has no effect; `--run_mode=ps-gpu` starts Paddle's own, if your Paddle "
        "has them",
        "no"},
    {"trainers of a job with parameter servers", "yes",
        "in Paddle or PyTorch: rows are copied to the ids' device", "the same, not tried"},
    {"collectives of `rt.h`", "yes", "yes, by NCCL: NVIDIA only", "no: use those of Paddle"},
    {"`paddlert`: data parallel and elastic models, SyncBatchNorm", "yes",
        "in PyTorch or Paddle: what travels is copied to main memory; ranks may share a GPU",
        "the same, not tried"},
    {"`paddlert.Group`", "yes", "arrays in main memory alone", "the same"},
    {"models of `examples`", "yes: x86-64 (any; AVX2 and AVX-512 are used) and arm64",
        "no: `--use_gpu` "
        "and `PADDLE_INIT_USE_GPU` are one warning",
        "no"},
};

int node_devices_markdown(struct co_buf *b, struct co_err *err) {
    CO_TRY(co_buf_adds(b,
        "## Devices\n\n"
        "`paddlerun launch` starts a process for each device that it finds, and gives it the "
        "device's number\n"
        "among the visible ones. A variable that lists devices goes before files in `/dev`; `all` "
        "is as if it were not set.\n"
        "A list ends at the first item that is neither a number nor a UUID (`GPU-`, `MIG-`, "
        "`DRS-`): an "
        "empty one, `-1`, `none`,\n"
        "`void` and `NoDevFiles` hide all devices of that kind. Without devices it starts one "
        "process, or\n"
        "`--nproc_per_node`. `PADDLE_XCCL_BACKEND=NAME` names any other plugin of Paddle, whose "
        "devices `NAME_VISIBLE_DEVICES` lists.\n\n"
        "| device | found by | visible ones | a process gets | `resources` of a pod | Paddle | "
        "example | tried |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
        err));
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        CO_TRY(kind_row(b, &kinds[i], err));
    }
    CO_TRY(co_buf_adds(b,
        "\n"
        "Files, variables and packages are those of Paddle's launcher (3.3), its installation "
        "guides and its plugins; resources\n"
        "those of the vendors' device plugins. None was tried on such a node but NVIDIA's. What to "
        "know of them:\n"
        "\n"
        "- Resources have other names on some clusters; `kubectl describe node` lists what a node "
        "offers. XPU: `baidu.com/xpu` of\n"
        "  older plugins. DCU: `hygon.com/dcunum` of HAMi. NPU: `huawei.com/npu` for Atlas 350 "
        "since MindCluster 26.0,\n"
        "  `huawei.com/ascend-1980` at Huawei CCE, `huawei.com/Ascend910B3` and the like of HAMi. "
        "MLU: by model, as\n"
        "  `cambricon.com/mlu370`, from a plugin that is deployed as in its examples. GCU: parts "
        "of a card are\n"
        "  `enflame.com/drs-gcu` and `enflame.com/shared-gcu`.\n"
        "- Packages other than `paddlepaddle` are in Paddle's own index, "
        "https://www.paddlepaddle.org.cn/packages/, by device.\n"
        "  `paddlepaddle-dcu` was `paddlepaddle-rocm`.\n"
        "- `NPU_VISIBLE_DEVICES` is a variable of Paddle's launcher alone; Ascend's runtime goes "
        "by `ASCEND_RT_VISIBLE_DEVICES`. So\n"
        "  it is with `GCU_VISIBLE_DEVICES`, which is not asked: Enflame's runtime goes by "
        "`TOPS_VISIBLE_DEVICES`.\n"
        "- Not confirmed by a document of the vendor: `HIP_VISIBLE_DEVICES`, AMD's, for DCUs "
        "(Paddle's launcher asks for\n"
        "  `CUDA_VISIBLE_DEVICES`), and `enflame.com/gcu`, whose plugin is not public.\n"
        "\n"
        "## What runs on what\n\n"
        "| what | CPU | GPU | XPU, DCU, NPU, MLU, GCU |\n| --- | --- | --- | --- |\n",
        err));
    for (size_t i = 0; i < CO_ARRAY_LEN(programs); i++) {
        CO_TRY(co_buf_addf(b, err, "| %s | %s | %s | %s |\n", programs[i].what, programs[i].cpu,
            programs[i].gpu, programs[i].others));
    }
    return co_buf_adds(b,
        "\nNodes of one job may have CPUs of several kinds, with and without AVX-512: what they "
        "send each other has one form\n"
        "(`examples/resnet50` compares layouts before it trains). All nodes of a job have the same "
        "kind of device.\n",
        err);
}
