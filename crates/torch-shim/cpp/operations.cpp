// Operations over lists of tensors, global switches and the counter of dispatched operations.
#include "shim.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <map>
#include <mutex>

std::string& dunnart::last_error() {
  thread_local std::string text;
  return text;
}

using dunnart::guarded;
using dunnart::optional;
using dunnart::tensors;

extern "C" {

const char* dunnart_shim_error(size_t* length) {
  const std::string& text = dunnart::last_error();
  *length = text.size();
  return text.data();
}

// ---- lists that C++ hands to Rust -----------------------------------------------------------------------------------

size_t dunnart_shim_list_length(const List* list) { return list->size(); }

// Tensors without a value come out as null.
Handle dunnart_shim_list_get(const List* list, size_t index) {
  const at::Tensor& tensor = (*list)[index];
  return tensor.defined() ? new at::Tensor(tensor) : nullptr;
}

// A null handle pushes a tensor without a value.
void dunnart_shim_list_push(List* list, Handle tensor) {
  if (tensor == nullptr) {
    list->emplace_back();
  } else {
    list->push_back(*tensor);
  }
}

void dunnart_shim_list_free(List* list) { delete list; }

// ---- precision of matrix products -----------------------------------------------------------------------------------

int dunnart_shim_set_matmul_precision(const char* name) {
  return guarded([&] { at::globalContext().setFloat32MatmulPrecision(name); });
}

int dunnart_shim_matmul_precision(int* precision) {
  return guarded([&] { *precision = static_cast<int>(at::globalContext().float32MatmulPrecision()); });
}

// ---- autocast -------------------------------------------------------------------------------------------------------

int dunnart_shim_autocast_state(int device, int* enabled, int* kind) {
  return guarded([&] {
    auto type = static_cast<c10::DeviceType>(device);
    *enabled = at::autocast::is_autocast_enabled(type) ? 1 : 0;
    *kind = static_cast<int>(at::autocast::get_autocast_dtype(type));
  });
}

int dunnart_shim_autocast_set(int device, int enabled, int kind) {
  return guarded([&] {
    auto type = static_cast<c10::DeviceType>(device);
    at::autocast::set_autocast_enabled(type, enabled != 0);
    at::autocast::set_autocast_dtype(type, static_cast<at::ScalarType>(kind));
  });
}

int dunnart_shim_autocast_enter() {
  return guarded([&] { at::autocast::increment_nesting(); });
}

int dunnart_shim_autocast_exit() {
  return guarded([&] {
    // Casts of weights are kept for the time of the outermost region only.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  });
}

// ---- lists of tensors -----------------------------------------------------------------------------------------------

int dunnart_shim_foreach_norm(const Handle* list, size_t count, List** norms) {
  return guarded([&] {
    at::NoGradGuard no_grad;
    *norms = new List(at::_foreach_norm(tensors(list, count), 2));
  });
}

int dunnart_shim_foreach_mul(const Handle* list, size_t count, Handle factor) {
  return guarded([&] {
    at::NoGradGuard no_grad;
    at::_foreach_mul_(tensors(list, count), *factor);
  });
}

int dunnart_shim_foreach_zero(const Handle* list, size_t count) {
  return guarded([&] {
    at::NoGradGuard no_grad;
    at::_foreach_zero_(tensors(list, count));
  });
}

int dunnart_shim_foreach_unscale(const Handle* list, size_t count, Handle found_inf, Handle inverse_scale) {
  return guarded([&] {
    at::NoGradGuard no_grad;
    at::_amp_foreach_non_finite_check_and_unscale_(tensors(list, count), *found_inf, *inverse_scale);
  });
}

// The norm stays on its device: nothing here waits for it.
int dunnart_shim_clip_grad_norm(const Handle* list, size_t count, double max_norm, Handle* norm) {
  return guarded([&] {
    at::NoGradGuard no_grad;
    auto gradients = tensors(list, count);
    auto norms = at::_foreach_norm(gradients, 2);
    auto total = norms.size() == 1 ? norms[0] : at::linalg_vector_norm(at::stack(norms), 2);
    auto factor = (max_norm / (total + 1e-6)).clamp_max(1.0);
    at::_foreach_mul_(gradients, factor);
    *norm = new at::Tensor(total);
  });
}

// ---- fused optimisers -----------------------------------------------------------------------------------------------

}  // extern "C"

namespace {

// The kernels read the count after its increment; a step that was skipped takes it back, on the device.
template <class Update>
void counted(const std::vector<at::Tensor>& steps, const std::optional<at::Tensor>& found_inf, Update&& update) {
  at::_foreach_add_(steps, 1);
  update();
  if (found_inf.has_value()) at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), *found_inf));
}

}  // namespace

extern "C" {

int dunnart_shim_fused_adam(size_t count, const Handle* parameters, const Handle* gradients, const Handle* exp_avg,
                            const Handle* exp_avg_sq, const Handle* max_exp_avg_sq, const Handle* steps,
                            double learning_rate, double beta1, double beta2, double weight_decay, double epsilon,
                            int decoupled, int maximize, Handle grad_scale, Handle found_inf) {
  return guarded([&] {
    at::NoGradGuard no_grad;
    bool amsgrad = max_exp_avg_sq != nullptr;
    auto p = tensors(parameters, count), g = tensors(gradients, count), m = tensors(exp_avg, count),
         v = tensors(exp_avg_sq, count), x = tensors(max_exp_avg_sq, amsgrad ? count : 0), s = tensors(steps, count);
    auto scale = optional(grad_scale), inf = optional(found_inf);
    counted(s, inf, [&] {
      if (decoupled != 0) {
        at::_fused_adamw_(p, g, m, v, x, s, learning_rate, beta1, beta2, weight_decay, epsilon, amsgrad, maximize != 0,
                          scale, inf);
      } else {
        at::_fused_adam_(p, g, m, v, x, s, learning_rate, beta1, beta2, weight_decay, epsilon, amsgrad, maximize != 0,
                         scale, inf);
      }
    });
  });
}

int dunnart_shim_fused_sgd(size_t count, const Handle* parameters, const Handle* gradients,
                           const Handle* momentum_buffers, double weight_decay, double momentum, double learning_rate,
                           double dampening, int nesterov, int maximize, int first_step, Handle grad_scale,
                           Handle found_inf) {
  return guarded([&] {
    at::NoGradGuard no_grad;
    auto b = tensors(momentum_buffers, momentum_buffers != nullptr ? count : 0);
    at::_fused_sgd_(tensors(parameters, count), tensors(gradients, count), b, weight_decay, momentum, learning_rate,
                    dampening, nesterov != 0, maximize != 0, first_step != 0, optional(grad_scale),
                    optional(found_inf));
  });
}

int dunnart_shim_fused_adagrad(size_t count, const Handle* parameters, const Handle* gradients,
                               const Handle* state_sums, const Handle* steps, double learning_rate,
                               double learning_rate_decay, double weight_decay, double epsilon, int maximize,
                               Handle grad_scale, Handle found_inf) {
  return guarded([&] {
    at::NoGradGuard no_grad;
    auto p = tensors(parameters, count), g = tensors(gradients, count), q = tensors(state_sums, count),
         s = tensors(steps, count);
    auto scale = optional(grad_scale), inf = optional(found_inf);
    counted(s, inf, [&] {
      at::_fused_adagrad_(p, g, q, s, learning_rate, learning_rate_decay, weight_decay, epsilon, maximize != 0, scale,
                          inf);
    });
  });
}

}  // extern "C"

// ---- counting dispatched operations ---------------------------------------------------------------------------------

namespace {

std::mutex counts_mutex;
std::map<std::string, uint64_t> counts;

// The callback is a plain function pointer, so the counts have to be global; Rust lets one counter live at a time.
std::unique_ptr<at::ObserverContext> count_operation(const at::RecordFunction& function) {
  std::lock_guard<std::mutex> lock(counts_mutex);
  counts[function.name()]++;
  return nullptr;
}

}  // namespace

extern "C" {

int dunnart_shim_count_start(uint64_t* callback) {
  return guarded([&] {
    {
      std::lock_guard<std::mutex> lock(counts_mutex);
      counts.clear();
    }
    // A thread-local callback is inherited by the autograd engine's threads and sees nobody else's work.
    *callback = at::addThreadLocalCallback(
        at::RecordFunctionCallback(count_operation).scopes({at::RecordScope::FUNCTION}));
  });
}

int dunnart_shim_count_stop(uint64_t callback) {
  return guarded([&] { at::removeCallback(callback); });
}

int dunnart_shim_count_visit(void* user, void (*visit)(void* user, const char* name, size_t length, uint64_t count)) {
  return guarded([&] {
    std::lock_guard<std::mutex> lock(counts_mutex);
    for (const auto& [name, count] : counts) visit(user, name.data(), name.size(), count);
  });
}

}  // extern "C"
