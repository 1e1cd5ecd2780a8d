"""Ranks of data parallel training beside one process that has the whole batch.  parallel.py FRAMEWORK CASE RANK ENDPOINT..."""
import contextlib
import copy
import importlib
import os
import signal
import sys

import numpy as np
import paddlert

name, case, rank, *endpoints = sys.argv[1:]
rank, size = int(rank), len(endpoints)
framework = importlib.import_module(name)
ours = importlib.import_module(f"paddlert.{name}")
TORCH = name == "torch"
Module = framework.nn.Module if TORCH else framework.nn.Layer
STEPS, BATCH, WIDTH = 6, 4, 8                     # BATCH: of one rank


def linear(n, m):
    return framework.nn.Linear(n, m)


class Net(Module):
    """Two experts, one frozen and one shared layer, one that nobody uses, and running means."""

    def __init__(self):
        super().__init__()
        self.first, self.shared, self.frozen = linear(WIDTH, WIDTH), linear(WIDTH, WIDTH), linear(WIDTH, WIDTH)
        self.experts = (framework.nn.ModuleList if TORCH else framework.nn.LayerList)([linear(WIDTH, WIDTH) for _ in range(2)])
        self.nobody, self.last = linear(3, 3), linear(WIDTH, 1)
        for p in self.frozen.parameters():
            freeze(p)

    def forward(self, x, expert=None):
        x = framework.tanh(self.shared(framework.tanh(self.shared(framework.tanh(self.first(x))))))
        x = self.frozen(x)
        if expert is not None:
            x = self.experts[expert](x)
        return {"y": [self.last(x)]}


def freeze(p):
    if TORCH:
        p.requires_grad_(False)
    else:
        p.stop_gradient = True


def tensor(values):
    return framework.tensor(values) if TORCH else framework.to_tensor(values)


def filled(net, seed):
    """Parameters of that seed."""
    rng = np.random.default_rng(seed)
    for name, p in net.named_parameters():
        values = rng.normal(0, 0.4, list(p.shape)).astype(np.float32)
        values = abs(values) if name.endswith("_variance") else values           # Paddle's running ones are parameters
        if TORCH:
            with framework.no_grad():
                p.copy_(tensor(values))
        else:
            p.set_value(values)
    return net


def optimizer_of(net):
    parameters = [p for p in net.parameters()]
    if TORCH:
        return framework.optim.SGD([p for p in parameters if p.requires_grad], lr=0.1, momentum=0.9)
    return framework.optimizer.Momentum(0.1, 0.9, parameters=parameters)


def clear(optimizer):
    optimizer.zero_grad() if TORCH else optimizer.clear_grad(set_to_zero=False)


def batch(step, r):
    rng = np.random.default_rng([step, r])
    x = rng.normal(size=(BATCH, WIDTH)).astype(np.float32)
    return tensor(x), tensor(np.sin(x.sum(1, keepdims=True)))


def loss_of(net, step, r, expert=None):
    x, y = batch(step, r)
    out = net(x, expert)["y"][0]
    return ((out - y) ** 2).mean()


def expert_of(step, r):
    """None in the first steps, one on some ranks in others: which differs."""
    return None if step % 3 == 0 or (r + step) % 3 == 0 else (step // 3 + r) % 2


def values(net):
    return {n: np.array(p.tolist(), np.float32).reshape(list(p.shape)) for n, p in net.named_parameters()}


def alone(steps, experts=False, k=1):
    """Of one process with all ranks' batches: the mean of their losses; k: of that many batches of each."""
    net = filled(Net(), 7)
    optimizer = optimizer_of(net)
    for step in range(0, steps, k):
        clear(optimizer)
        for s in range(step, step + k):
            for r in range(size):
                (loss_of(net, s, r, expert_of(s, r) if experts else None) / size).backward()
        optimizer.step()
    return values(net)


def near(got, want, most=1e-6):
    assert list(got) == list(want)
    for n in want:
        assert np.abs(got[n] - want[n]).max() <= most, (n, np.abs(got[n] - want[n]).max())


def wrap(net, group, **options):
    if not TORCH:
        options = {{"bucket_cap_mb": "comm_buffer_size", "last_bucket_mb": "last_comm_buffer_size"}.get(k, k): v for k, v in options.items()}
    return (ours.DistributedDataParallel if TORCH else ours.DataParallel)(net, group, **options)


def train(model, net, steps=STEPS, experts=False, k=1, after=lambda step: None):
    optimizer = optimizer_of(net)
    for step in range(0, steps, k):
        clear(optimizer)
        for s in range(step, step + k):
            with contextlib.nullcontext() if s == step + k - 1 else model.no_sync():
                loss_of(model, s, rank, expert_of(s, rank) if experts else None).backward()
        assert all(p.grad is None for p in net.nobody.parameters())
        optimizer.step()
        after(step)


group = paddlert.Group(endpoints=endpoints, rank=rank, call_timeout=120)
net = filled(Net(), 7 if rank == 0 else 8)                        # the others' values are replaced
SMALL = {"bucket_cap_mb": 300e-6, "last_bucket_mb": 100e-6}


def case_steps():
    with wrap(net, group) as model:
        train(model, net)
    near(values(net), alone(STEPS))


def case_buckets():
    """Their order is that in which backward makes gradients, the layers' from the last to the first."""
    model = wrap(net, group, **SMALL)
    assert len(set(model._parallel._reducer.buckets())) > 3
    train(model, net)
    layers = [model._parallel._parameters[i][0].split(".")[0] for i in model._parallel._order]
    assert list(dict.fromkeys(layers)) == ["last", "shared", "first", "nobody", "experts"], layers
    near(values(net), alone(STEPS))


def case_uneven():
    """Experts of some ranks, of none, others of other ranks: who has no gradient counts as zeros."""
    train(wrap(net, group, **SMALL), net, experts=True)
    near(values(net), alone(STEPS, experts=True), 2e-6)


def case_accumulation():
    train(wrap(net, group), net, experts=True, k=3)
    near(values(net), alone(STEPS, experts=True, k=3), 2e-6)


def case_compression():
    for wire in ("bf16", "f16"):
        filled(net, 7)
        model = wrap(net, group, compression=wire)
        train(model, net)
        near(values(net), alone(STEPS), 0.05)
        ranks = group.all_gather(np.concatenate([v.ravel() for v in values(net).values()]))
        assert (ranks == ranks[0]).all() and np.abs(values(net)["last.weight"] - alone(STEPS)["last.weight"]).max() > 0
        model.close()


def case_no_gradient_at_all():
    """Of one rank, in a backward that comes through the model all the same."""
    class Skips(Module):
        def __init__(self):
            super().__init__()
            self.linear = linear(WIDTH, WIDTH)

        def forward(self, x):
            return (x + self.linear(x) if rank == 0 else x * 1,)

    net = Skips()
    model = wrap(net, group)
    x = batch(0, rank)[0]
    x.requires_grad_() if TORCH else setattr(x, "stop_gradient", False)
    model(x)[0].sum().backward()
    assert np.allclose(net.linear.bias.grad.tolist(), BATCH / size), net.linear.bias.grad


def case_buffers():
    class Running(Module):
        def __init__(self):
            super().__init__()
            self.linear = linear(WIDTH, 1)
            self.register_buffer("seen", tensor(np.full(2, float(rank), np.float32)))
            self.register_buffer("flag", tensor(np.array(rank == 0)))

        def forward(self, x, _):
            return {"y": [self.linear(x)]}

    for wanted in (True, False):
        net = Running()
        model = wrap(net, group, broadcast_buffers=wanted)
        assert net.seen.tolist() == [0, 0] and bool(net.flag)
        for step in range(2):
            net.seen.copy_(tensor(np.full(2, 10.0 + rank, np.float32))) if TORCH else net.seen.set_value(np.full(2, 10.0 + rank, np.float32))
            with framework.no_grad():
                model(batch(step, rank)[0], None)                            # does not communicate: one rank alone may
            with model.no_sync():
                loss_of(model, step, rank)
            assert net.seen.tolist() == [10.0 + rank] * 2
            loss_of(model, step, rank).backward()
            assert net.seen.tolist() == [10.0 if wanted else 10.0 + rank] * 2, net.seen
        model.close()


def case_disagree():
    for wrong, said in ((lambda: linear(WIDTH, 2 + rank), '"weight" is a parameter of float32'),
                        (lambda: Net() if rank else linear(WIDTH, 2), '"first.weight" is a parameter'),):
        try:
            wrap(wrong(), group)
            raise AssertionError("not refused")
        except paddlert.InvalidError as e:
            assert str(e).startswith("the models of the ranks differ: on rank 1 ") and said in str(e) and "on rank 0" in str(e), e
    try:
        wrap(net, group, compression="bf16" if rank else None)
        raise AssertionError("not refused")
    except paddlert.InvalidError as e:
        assert "compression" in str(e) and "bf16" in str(e), e


def case_checkpoint():
    file = f"checkpoint.{name}"
    model = wrap(net, group)
    train(model, net, 3)
    state = model.state_dict()
    assert list(state) == list(net.state_dict()) and not any(n.startswith("module.") for n in state)
    if rank == 0:
        (framework.save)(state, file)
    group.barrier()
    plain = Net()
    loaded = framework.load(file)
    plain.load_state_dict(loaded) if TORCH else plain.set_state_dict(loaded)
    near(values(plain), values(net), 0)
    filled(net, 9)
    model.load_state_dict(loaded) if TORCH else model.set_state_dict(loaded)
    near(values(net), values(plain), 0)
    if TORCH:
        filled(net, 9)
        model.load_state_dict({f"module.{n}": v for n, v in loaded.items()})       # of torch's own wrapper
        near(values(net), values(plain), 0)
        outer = framework.nn.Sequential(model)
        outer.load_state_dict(outer.state_dict())
        assert "0.first.weight" in outer.state_dict()


def case_closed():
    model = wrap(net, group)
    model.close()
    loss_of(net, 0, rank).backward()                             # by itself again: nobody else need
    try:
        model(batch(0, 0)[0])
        raise AssertionError("not refused")
    except paddlert.InvalidError as e:
        assert "closed" in str(e)


def case_kill():
    """The last rank dies in a step; the others learn it out of backward."""
    model = wrap(net, group)
    said = None
    try:
        train(model, net, 100, after=lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == 2 and rank == size - 1 else None)
    except paddlert.PeerLostError as e:
        said = str(e)
    assert said and f"rank {size - 1}" in said, said
    for again in range(2):
        try:
            model(batch(0, 0)[0])
            raise AssertionError("not refused")
        except paddlert.PeerLostError as e:
            assert f"rank {size - 1}" in str(e), e
    model.close()
    smaller = group.shrink()
    model = wrap(net, smaller)
    loss_of(model, 0, rank).backward()
    assert smaller.size == size - 1


def case_error():
    """An error of the program in the backward of one rank: the others learn which."""
    model = wrap(net, group)
    loss_of(model, 0, rank).backward()
    out = model(batch(1, rank)[0])["y"][0]

    def fail(_):
        raise ArithmeticError("mine")
    try:
        if rank == 1:
            if TORCH:
                net.first.weight.register_hook(fail)
            else:
                model._parallel.__class__._take = staticmethod(lambda *_: fail(0))
        out.sum().backward()
        if rank == 1:
            raise AssertionError("no error")
    except ArithmeticError as e:
        assert rank == 1 and str(e) == "mine"
        try:
            model(batch(1, rank)[0])
            raise AssertionError("not refused")
        except paddlert.InvalidError as e:
            assert "error" in str(e) or "failed" in str(e), e
    except paddlert.PeerLostError as e:
        assert rank == 0 and "rank 1" in str(e), e


def case_cleared():
    """A hook that updates a parameter by its own gradient and clears that: refused, as there would be nothing to average."""
    net.first.weight.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    model = wrap(net, group)
    try:
        loss_of(model, 0, rank).backward()
        raise AssertionError("not refused")
    except paddlert.InvalidError as e:
        assert "a hook has cleared a gradient" in str(e), e
    except paddlert.PeerLostError as e:
        assert "a hook has cleared a gradient" in str(e), e


def normalising(images, **options):
    """Batch normalisation of features or of images, whose layers are not the model's first."""
    nn = framework.nn
    if images:
        conv, norm, flat, last = (nn.Conv2d, nn.BatchNorm2d, nn.Flatten, 4 * 36) if TORCH else (nn.Conv2D, nn.BatchNorm2D, nn.Flatten, 4 * 36)
        return nn.Sequential(conv(3, 4, 3), norm(4, **options), nn.Tanh(), flat(), linear(last, 1))
    norm = nn.BatchNorm1d if TORCH else nn.BatchNorm1D
    return nn.Sequential(linear(WIDTH, 5), norm(5, **options), nn.Tanh(), linear(5, 4), norm(4, **options), nn.Tanh(), linear(4, 1))


def normalise(images, sizes, options, steps=4, nhwc=False):
    """Ranks of so many samples beside one process that has all: parameters, running statistics, and what a model that is evaluated says."""
    rng = np.random.default_rng(5)
    data = [rng.normal(3, 2, (steps, n, *((3, 8, 8) if images else (WIDTH,)))).astype(np.float32) for n in sizes]
    whole, net = (filled(normalising(images, **options), 7) for _ in range(2))
    kept = dict(net.named_parameters())
    converted = ours.SyncBatchNorm.convert_sync_batchnorm(net)
    assert converted is net and all(kept[n] is p for n, p in net.named_parameters())
    assert sum(isinstance(m, ours.SyncBatchNorm) for m in (net.modules() if TORCH else net.sublayers())) == (1 if images else 2)
    model = wrap(net, group)
    loss = lambda y, n: framework.sin(y).sum() / (n or 1)                     # noqa: E731
    as_images = (lambda x: x.contiguous(memory_format=framework.channels_last)) if nhwc else lambda x: x
    for trained, batches in ((whole, range(size)), (model, [rank])):
        optimizer = optimizer_of(trained)
        for step in range(steps):
            clear(optimizer)
            y = trained(as_images(tensor(np.concatenate([data[r][step] for r in batches]))))
            at = np.cumsum([0, *(sizes[r] for r in batches)])
            total = sum(loss(y[int(at[i]):int(at[i + 1])], sizes[r]) for i, r in enumerate(batches))
            (total / (size if trained is whole else 1)).backward()
            optimizer.step()
    near(values(net), values(whole), 1e-4)
    buffers = [{n: np.array(b.tolist(), np.float32) for n, b in m.named_buffers()} for m in (net, whole)]
    near(*buffers, 1e-4)
    for m in (model, whole):
        m.eval()
    if rank == size - 1:                                                     # does not communicate
        x = tensor(data[rank][0])
        assert np.allclose(model(x).tolist(), whole(x).tolist(), atol=1e-3)
    kept = copy.deepcopy(net)                                                # by itself: as averages over steps are kept
    kept.train()
    if rank == 0:
        kept(tensor(np.concatenate([data[-1][0]] * 2))).sum().backward()
        if TORCH:
            framework.save(net, "whole.pt")
            framework.load("whole.pt", weights_only=False)(tensor(np.concatenate([data[-1][0]] * 2)))
    model.close()
    net.train()
    assert all(m.group is None for m in (net.modules() if TORCH else net.sublayers()) if isinstance(m, ours.SyncBatchNorm))
    net(tensor(np.concatenate([data[-1][0]] * 2)))                           # by itself again


def case_norm():
    sizes = list(range(1, size + 1))
    for options in ({}, {"momentum": 0.3}, *([{"momentum": None}, {"affine": False}, {"track_running_stats": False}] if TORCH else
                                           [{"weight_attr": False, "bias_attr": False}])):
        normalise(False, sizes, options)
        normalise(True, sizes, options)
    if TORCH:                                                                # Paddle's own layers have no gradient of an empty batch
        normalise(False, [0, *sizes[1:]], {})
        normalise(True, sizes, {}, nhwc=True)
    else:
        x = np.random.default_rng([3, rank]).normal(size=(rank + 1, 6, 5, 3)).astype(np.float32)
        outs = [(lambda layer, x: [y := layer(x), (y * y * y).sum().backward(), x.grad][::2])(
            ours.SyncBatchNorm(3, data_format=f, group=group), x) for f, x in (
                ("NHWC", framework.to_tensor(x, stop_gradient=False)),
                ("NCHW", framework.to_tensor(x.transpose(0, 3, 1, 2).copy(), stop_gradient=False)))]
        for last, first in zip(*outs):
            assert np.allclose(last.numpy(), first.numpy().transpose(0, 2, 3, 1), atol=1e-5)


def case_running_means():
    """Of plain batch normalisation: rank 0's, as each forward begins."""
    net = normalising(False)
    model = wrap(net, group)
    x = tensor(np.full((4, WIDTH), 1.0 + rank, np.float32))
    means = lambda: np.array((net[1].running_mean if TORCH else net[1]._mean).tolist())                       # noqa: E731
    model(x)
    ranks = group.all_gather(means())
    assert not np.allclose(ranks[0], ranks[1])
    x = tensor(np.full((4, WIDTH), 2.0, np.float32))
    model(x)
    ranks = group.all_gather(means())
    assert np.allclose(ranks, ranks[0]), ranks


def case_norm_kinds():
    """Halves, layers alone with a group, and what is refused."""
    layer = ours.SyncBatchNorm(3, group=group)
    x = np.random.default_rng(3).normal(5, 3, (size * 4, 3)).astype(np.float32)
    want = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    for kind, most in (("float32", 1e-5), ("bfloat16", 0.1), ("float16", 0.02)):
        own = tensor(x[rank * 4:rank * 4 + 4])
        own = own.to(getattr(framework, kind)) if TORCH else own.astype(kind)
        y = layer(own)
        assert y.dtype == own.dtype and np.abs(np.array((y.float() if TORCH else y.astype("float32")).tolist()) - want[rank * 4:rank * 4 + 4]).max() < most
    for wrong, said in ((np.zeros((2, 4), np.float32), "expected"), (np.zeros((2, 3)), "float64")):
        try:
            layer(tensor(wrong))
            raise AssertionError("not refused")
        except (ValueError, paddlert.UnsupportedError) as e:
            assert said in str(e), e
    if not TORCH:                                                            # its running variance is that of the batch
        return
    try:
        layer(tensor(x[:int(rank == 0)]))
        raise AssertionError("not refused")
    except paddlert.InvalidError as e:
        assert "1 value a channel" in str(e), e


def case_norm_differs():
    """Layers that would each make something else of all ranks' statistics: refused by name; and the framework's own, which has no ranks."""
    nn = framework.nn
    plain = nn.BatchNorm1d if TORCH else nn.BatchNorm1D
    eps = "eps" if TORCH else "epsilon"
    of = lambda norm: nn.Sequential(linear(WIDTH, 3), norm, linear(3, 1))                                     # noqa: E731
    made = lambda **options: ours.SyncBatchNorm(3, **options)                                                 # noqa: E731
    for model, said in ((of(made(momentum=0.5 if rank else 0.25)), "momentum=0.5"), (of(made(**{eps: 0.5 if rank else 0.25})), f"{eps}=0.5"),
                        (of(made() if rank else plain(3)), f"{eps}=1e-05"), (made(**{eps: 0.5 if rank else 0.25}), f"{eps}=0.5")):
        where = "the model" if isinstance(model, ours.SyncBatchNorm) else "1"
        try:
            wrap(model, group)
            raise AssertionError("not refused")
        except paddlert.InvalidError as e:
            assert f'on rank 1 "{where}" is a SyncBatchNorm(' in str(e) and said in str(e).split("on rank 0")[0], e
    layer = made(group=group, **{eps: 0.5 if rank else 0.25})
    try:
        layer(tensor(np.ones((4, 3), np.float32)))
        raise AssertionError("not refused")
    except paddlert.InvalidError as e:
        assert 'on rank 1 "the layer" is a SyncBatchNorm(' in str(e), e
    try:
        wrap(of(nn.SyncBatchNorm(3)), group)
        raise AssertionError("not refused")
    except paddlert.UnsupportedError as e:
        assert str(e).startswith(f'"1" is a {framework.__name__}.nn.SyncBatchNorm, for which'), e


def case_widened():
    """Converted to float64 once it is wrapped, where averages of float32 would be taken for its own."""
    model = wrap(net, group)
    net.double() if TORCH else net.to(dtype="float64")
    x, _ = batch(0, rank)
    try:
        model(x.double() if TORCH else x.astype("float64"))["y"][0].sum().backward()
        raise AssertionError("not refused")
    except paddlert.Error as e:
        assert "float64" in str(e) and "converted since it was wrapped" in str(e), e


def same(what):
    """The values of all ranks are the same."""
    ranks = group.all_gather(np.concatenate([v.ravel() for v in values(what).values()]))
    assert np.allclose(ranks, ranks[0], atol=0), np.abs(ranks - ranks[0]).max()


def case_dgc():
    """A large layer, all of whose entries travel within a few steps, beside one that is dense."""
    wide = lambda: framework.nn.Sequential(linear(WIDTH, 3000), framework.nn.Tanh(), linear(3000, 1))         # noqa: E731
    first, second = filled(wide(), 3), filled(wide(), 3)
    model = wrap(second, group, compression=ours.DGC(sparsity=0.5))
    sgd = lambda m: framework.optim.SGD(m.parameters(), lr=1e-3) if TORCH else framework.optimizer.SGD(1e-3, parameters=m.parameters())  # noqa: E731
    for trained, batches in ((first, range(size)), (model, [rank])):
        optimizer = sgd(trained)
        for step in range(20):
            clear(optimizer)
            for r in batches:
                x, y = batch(step, r)
                (((trained(x) - y) ** 2).mean() / (size if trained is first else 1)).backward()
            optimizer.step()
    same(second)
    near(values(second), values(first), 0.02)


def case_local_sgd():
    """Each rank by itself from one average to the next, beside as many plain models."""
    plain = [filled(Net(), 7) for _ in range(size)]
    model = wrap(net, group, local_sgd=ours.LocalSGD(k_steps=3, begin_step=2))
    optimizer, others = optimizer_of(net), [optimizer_of(p) for p in plain]
    for step in range(9):
        for trained, using, r in [(model, optimizer, rank), *zip(plain, others, range(size))]:
            clear(using)
            loss_of(trained, step, r).backward()
            using.step()
        due = step in (0, 1, 4, 7)
        assert model.average_parameters() == due, step
        if due:
            for ours_is in zip(*(p.parameters() for p in plain)):
                mean = sum(np.array(p.tolist(), np.float32) for p in ours_is) / size
                for p in ours_is:
                    p.data.copy_(tensor(mean)) if TORCH else p.set_value(mean)
            same(net)
        near(values(net), values(plain[rank]), 2e-6)


def case_changed():
    """Layers that are unfrozen, replaced and added once the model is wrapped, and running means that a layer replaces."""
    model = wrap(net, group)

    def step(said):
        optimizer = optimizer_of(net)
        clear(optimizer)
        before = values(net)
        loss_of(model, 0, rank, 0).backward()
        grads = np.concatenate([np.array(p.grad.tolist()).ravel() for n, p in net.named_parameters() if p.grad is not None])
        ranks = group.all_gather(grads)
        assert np.allclose(ranks, ranks[0], atol=0), said
        optimizer.step()
        same(net)
        return [n for n, v in values(net).items() if n in before and before[n].shape == v.shape and (before[n] != v).any()]
    assert not any(n.startswith("frozen") for n in step("at first"))
    for p in net.frozen.parameters():
        p.requires_grad_(True) if TORCH else setattr(p, "stop_gradient", False)
    assert {"frozen.weight", "frozen.bias"} <= set(step("unfrozen"))
    net.last = filled(linear(WIDTH, 1), 20 + rank)
    assert {"last.weight", "last.bias"} <= set(step("replaced"))
    net.experts[0] = (framework.nn.Sequential)(linear(WIDTH, WIDTH), filled(linear(WIDTH, WIDTH), 30 + rank))
    assert {"experts.0.0.weight", "experts.0.1.weight"} <= set(step("added"))
    for p in net.first.parameters():
        freeze(p)
        setattr(p, "grad", None) if TORCH else p.clear_gradient(set_to_zero=False)
    assert not any(n.startswith("first") for n in step("frozen"))
    one = filled(linear(WIDTH, 1), 1)
    model = wrap(one, group)
    for p in one.parameters() if rank else ():                               # on one rank alone
        freeze(p)
    if rank:
        one.bias = filled(linear(WIDTH, 1), 2).bias
    try:
        model(batch(0, rank)[0]).sum().backward()
        raise AssertionError("not refused")
    except paddlert.Error as e:
        assert "rank" in str(e), e


def case_buffers_that_a_layer_replaces():
    class Counts(Module):
        def __init__(self):
            super().__init__()
            self.linear = linear(WIDTH, 1)
            self.register_buffer("seen", tensor(np.zeros(1, np.float32)))

        def forward(self, x):
            self.seen = self.seen + 1.0 + rank
            return self.linear(x)

    net = Counts()
    model = wrap(net, group)
    for step in range(3):
        model(batch(step, rank)[0]).sum().backward()
    assert net.seen.tolist() == [3.0 + rank], net.seen


def case_order_of_flags():
    """The output of a forward that averages does so whatever runs forward after it; no_sync inside of no_sync."""
    model = wrap(net, group)
    first = loss_of(model, 0, rank)
    with model.no_sync():
        with model.no_sync():
            pass
        loss_of(model, 1, rank)
    first.backward()
    same_grads = lambda: np.ptp(group.all_gather(np.array(net.first.weight.grad.tolist())), axis=0).max()      # noqa: E731
    assert same_grads() == 0
    with model.no_sync():
        with model.no_sync():
            pass
        loss_of(model, 1, rank).backward()
    assert same_grads() > 0


def case_create_graph():
    """Gradients of which gradients may be asked: the averages are the same, and no graph stays behind in the buckets."""
    train(wrap(filled(net, 7), group), net, 1)
    want = values(net)
    model, optimizer = wrap(filled(net, 7), group), optimizer_of(net)
    clear(optimizer)
    loss_of(model, 0, rank).backward(create_graph=True)
    assert all(p.grad.requires_grad for p in net.last.parameters()) and not any(v.requires_grad for v in model._parallel._views)
    optimizer.step()
    near(values(net), want)


def case_replaced():
    """Hooks that put another tensor, or other memory, in a gradient's place after it has been handed over: averages go to what is there."""
    train(wrap(filled(net, 7), group), net, 2)
    want = values(net)
    model = wrap(filled(net, 7), group, bucket_cap_mb=1e-5, last_bucket_mb=1e-5)
    for p in net.first.parameters():
        p.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", p.grad * 3))
    for p in net.last.parameters():
        p.register_post_accumulate_grad_hook(lambda p: setattr(p.grad, "data", p.grad * 3))
    train(model, net, 2)
    near(values(net), want)


globals()[f"case_{case}"]()
print("done", flush=True)
