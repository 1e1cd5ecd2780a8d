# Folders: which each may include, the libraries that it links, its own flags.  Programs, and the file with main of
# each.
#
# UNITS are the folders, uses_X all that X calls, directly or not.  pkgs_X are its pkg-config packages or plain -l
# libraries.

# A row is "folder|folder|...": the first may include the others.
LAYERS := $(shell awk -F'|' '/^## /{on = $$0 == "## Layers"} \
    on && /^\| [a-z]/ && $$2 !~ /folder/ { \
        gsub(/ /, "", $$2); gsub(/^ +| +$$/, "", $$4); gsub(/ +/, "|", $$4); print $$2 "|" $$4}' \
    ARCHITECTURE.md)
UNITS  := $(foreach l,$(LAYERS),$(firstword $(subst |, ,$(l))))
$(foreach l,$(LAYERS),$(eval may_$(firstword $(subst |, ,$(l))) := $(wordlist 2,99,$(subst |, ,$(l)))))
# The library's header stands for the folders that implement it.
may_runtime/rt.h := runtime/train/ps/client runtime/train/coll runtime/train/dp runtime/train/help runtime/train/data
closed = $(if $(2),$(call closed,$(1) $(2),$(filter-out $(1) $(2),$(sort $(foreach u,$(2),$(may_$(u)))))),$(1))
$(foreach u,$(UNITS),$(eval uses_$(u) := $(filter-out $(u) runtime/rt.h,$(call closed,,$(u)))))

pkgs_common                      := jansson yaml-0.1 libuv libmicrohttpd gnutls zlib
pkgs_operator/kube               := libcurl
pkgs_runtime/train/rpc           := grpc_unsecure libprotobuf-c
pkgs_runtime/train/ckpt          := libxxhash# a header alone: nothing is linked
pkgs_runtime/launch/rendezvous   := zlib
pkgs_examples/nn                 := -ldnnl
pkgs_examples/resnet50           := -ldnnl libjpeg

# Loops over tensors: vectorised, square roots included (nobody there asks math for errno).
LOOPS := runtime/train/optim $(addprefix examples/,nn ctr deepfm word2vec recommendation resnet50)
COPIES := $(addprefix runtime/train/,table ps/shard ps/client coll dp data)
$(foreach u,$(LOOPS),$(eval cflags_$(u) := -O3 -fno-math-errno))
$(foreach u,$(COPIES),$(eval cflags_$(u) := -O3))

PROGRAMS := paddle-operator paddlerun paddle-check paddle-pserver crdgen \
    logistic logistic-data wide_and_deep deepfm ctr_dnn word2vec recommendation resnet50 \
    bench-load bench-observer meet bench-coll bench-dp bench-resnet tune-coll bench-gpu bench-table bench-cold \
    bench-checkpoint bench-ps bench-trainers bench-many bench-alone bench-return bench-pull bench-dense
main_paddle-operator             := operator/cmd/main.c
main_paddlerun                   := runtime/launch/cmd/main.c
main_paddle-check                := runtime/selfcheck/main.c
main_paddle-pserver              := runtime/legacy/pserver/main.c
main_logistic                    := examples/logistic/train.c
main_logistic-data               := examples/logistic/data.c
main_wide_and_deep               := examples/wide_and_deep/train.c
main_deepfm                      := examples/deepfm/train.c
main_ctr_dnn                     := examples/ctr_dnn/train.c
main_word2vec                    := examples/word2vec/train.c
main_recommendation              := examples/recommendation/train.c
main_resnet50                    := examples/resnet50/train.c
main_crdgen                      := crd/crdgen.c
main_bench-load                  := bench/bench_load.c
main_bench-observer              := bench/observer.c
main_meet                        := bench/meet.c
main_bench-coll                  := bench/bench_coll.c
main_bench-dp                    := bench/bench_dp.c
main_bench-ps                    := bench/bench_ps.c
main_bench-trainers              := bench/bench_trainers.c
main_bench-many                  := bench/bench_many.c
main_bench-alone                 := bench/bench_alone.c
main_bench-return                := bench/bench_return.c
main_bench-pull                  := bench/bench_pull.c
main_bench-dense                 := bench/bench_dense.c
main_bench-resnet                := bench/bench_resnet.c
main_tune-coll                   := bench/tune_coll.c
main_bench-gpu                   := bench/bench_gpu.c
main_bench-table                 := bench/bench_table.c
main_bench-cold                  := bench/bench_cold.c
main_bench-checkpoint            := bench/bench_checkpoint.c
# The start gate runs in other people's pods: static, no library but libc.
main_paddle-gate                 := operator/gate/gate.c
