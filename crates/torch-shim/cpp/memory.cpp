// Memory that Rust owns, seen as a tensor.
#include "shim.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

using dunnart::guarded;

extern "C" {

// `release(owner)` is called when the last tensor over the memory goes, and also when making the tensor fails.
int dunnart_shim_from_memory(void* data, const int64_t* shape, size_t dimensions, int kind, void* owner,
                             void (*release)(void*), Handle* tensor) {
  return guarded([&] {
    auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(kind)).device(at::kCPU);
    auto maker = at::for_blob(data, at::IntArrayRef(shape, dimensions));
    maker.options(options);
    if (release != nullptr) maker.context(owner, release);
    *tensor = new at::Tensor(maker.make_tensor());
  });
}

// Ends the loan of memory: whoever still sees it gets a copy in its place.
int dunnart_shim_return_memory(Handle tensor) {
  return guarded([&] {
    const c10::Storage& storage = tensor->storage();
    if (tensor->use_count() == 1 && storage.use_count() == 1) return;
    size_t bytes = storage.nbytes();
    at::DataPtr copy = c10::GetCPUAllocator()->allocate(bytes);
    if (bytes != 0) std::memcpy(copy.get(), storage.data(), bytes);
    storage.set_data_ptr_noswap(std::move(copy));
  });
}

}  // extern "C"
