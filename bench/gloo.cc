// Gloo behind the functions that bench_coll.c times: it has no C interface.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>

namespace {
std::shared_ptr<gloo::rendezvous::Context> context;
uint32_t tag;
} // namespace

extern "C" {

// The ranks meet in an empty folder.
void gloo_open(int rank, int size, const char *folder) {
    gloo::rendezvous::FileStore store(folder);
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
    context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
}

void gloo_all_reduce(float *values, size_t n) {
    gloo::AllreduceOptions o(context);
    void (*sum)(void *, const void *, const void *, size_t) = &gloo::sum<float>;
    o.setOutput(values, n);
    o.setReduceFunction(sum);
    o.setTag(tag++);
    gloo::allreduce(o);
}

void gloo_barrier() {
    gloo::BarrierOptions o(context);
    o.setTag(tag++);
    gloo::barrier(o);
}

void gloo_broadcast(int64_t *value) {
    gloo::BroadcastOptions o(context);
    o.setOutput(value, 1);
    o.setRoot(0);
    o.setTag(tag++);
    gloo::broadcast(o);
}
}
