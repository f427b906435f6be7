// What the C++ files share: handles, lists and the way errors travel to Rust.
//
// Every exported function returns 0 when all is well and -1 after storing a text that dunnart_shim_error hands out.
// No exception leaves a function of this library, and no Rust panic enters it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

using Handle = at::Tensor*;
using List = std::vector<at::Tensor>;

namespace dunnart {

// The text of this thread's latest error.
std::string& last_error();

inline std::vector<at::Tensor> tensors(const Handle* handles, size_t count) {
  std::vector<at::Tensor> result;
  result.reserve(count);
  for (size_t i = 0; i < count; i++) result.push_back(*handles[i]);
  return result;
}

inline std::optional<at::Tensor> optional(Handle handle) {
  return handle == nullptr ? std::nullopt : std::optional<at::Tensor>(*handle);
}

// Runs `body`; an exception becomes -1 and a text without a backtrace.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const c10::Error& error) {
    last_error() = error.what_without_backtrace();
  } catch (const std::exception& error) {
    last_error() = error.what();
  } catch (...) {
    last_error() = "an exception of unknown type";
  }
  return -1;
}

}  // namespace dunnart
