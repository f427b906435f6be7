// Gradients: the engine with given output gradients, `.grad` tensors of our own, and functions whose two directions are Rust.
#include "shim.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

using dunnart::guarded;
using dunnart::tensors;

extern "C" {

// The two directions of a function, and the end of its life. Each returns 0, or -1 with the reason in `error`.
struct FunctionTable {
  int (*forward)(const void* user, const Handle* inputs, size_t input_count, List* outputs, List* saved,
                 std::string* error);
  int (*backward)(const void* user, const Handle* saved, size_t saved_count, const Handle* output_gradients,
                  size_t output_count, const uint8_t* needed, size_t input_count, List* input_gradients,
                  std::string* error);
  void (*release)(const void* user);
};

void dunnart_shim_set_text(std::string* target, const char* text, size_t length) { target->assign(text, length); }

}  // extern "C"

namespace {

// Owns the Rust object for as long as the graph may call its backward. Made anew for every application.
struct RustObject : torch::CustomClassHolder {
  const FunctionTable* table;
  const void* user;
  std::vector<std::vector<int64_t>> input_shapes;
  RustObject(const FunctionTable* table_, const void* user_) : table(table_), user(user_) {}
  ~RustObject() override { table->release(user); }
};

// Tensors without a value travel as null.
std::vector<Handle> handles(std::vector<at::Tensor>& list) {
  std::vector<Handle> result;
  result.reserve(list.size());
  for (auto& tensor : list) result.push_back(tensor.defined() ? &tensor : nullptr);
  return result;
}

struct RustFunction : torch::autograd::Function<RustFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, at::TensorList inputs,
                                                c10::intrusive_ptr<RustObject> object) {
    std::vector<at::Tensor> list(inputs.begin(), inputs.end());
    auto in = handles(list);
    List outputs, saved;
    std::string error;
    int status = object->table->forward(object->user, in.data(), in.size(), &outputs, &saved, &error);
    TORCH_CHECK(status == 0, "custom function, forward: ", error);
    for (const auto& tensor : list) object->input_shapes.push_back(tensor.sizes().vec());
    context->saved_data["object"] = c10::IValue::make_capsule(object);
    // An output that does not reach the loss then arrives without a value and costs nothing.
    context->set_materialize_grads(false);
    context->save_for_backward(std::move(saved));
    return outputs;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list output_gradients) {
    // Kernels over raw memory leave no trace for a second derivative, which would come out wrong without a word.
    TORCH_CHECK(!c10::GradMode::is_enabled(), "custom function, backward: it is not twice differentiable "
                "(a graph of the backward pass was asked for)");
    auto object = c10::static_intrusive_pointer_cast<RustObject>(
        c10::static_intrusive_pointer_cast<torch::CustomClassHolder>(context->saved_data["object"].toCapsule()));
    size_t input_count = object->input_shapes.size();
    auto saved = context->get_saved_variables();
    auto kept = handles(saved), out = handles(output_gradients);
    std::vector<uint8_t> needed(input_count);
    for (size_t i = 0; i < input_count; i++) needed[i] = context->needs_input_grad(i) ? 1 : 0;
    List gradients;
    std::string error;
    int status = object->table->backward(object->user, kept.data(), kept.size(), out.data(), out.size(), needed.data(),
                                         input_count, &gradients, &error);
    TORCH_CHECK(status == 0, "custom function, backward: ", error);
    // The engine would sum or expand a gradient of another shape without a word.
    for (size_t i = 0; i < input_count; i++) {
      at::IntArrayRef expected = object->input_shapes[i];
      TORCH_CHECK(!gradients[i].defined() || gradients[i].sizes() == expected,
                  "custom function, backward: gradient of input ", i, ": expected shape ", expected, ", got ",
                  gradients[i].sizes());
    }
    gradients.emplace_back();  // The object is an argument, too.
    return gradients;
  }
};

torch::autograd::edge_list edges(const std::vector<at::Tensor>& list) {
  torch::autograd::edge_list result;
  result.reserve(list.size());
  for (const auto& tensor : list) result.push_back(torch::autograd::impl::gradient_edge(tensor));
  return result;
}

}  // namespace

extern "C" {

// Takes over one reference to `user`, also when it fails.
int dunnart_shim_apply(const FunctionTable* table, const void* user, const Handle* inputs, size_t count,
                       List** outputs) {
  return guarded([&] {
    auto object = c10::make_intrusive<RustObject>(table, user);
    auto in = tensors(inputs, count);
    *outputs = new List(RustFunction::apply(at::TensorList(in), object));
  });
}

int dunnart_shim_gradients(const Handle* outputs, const Handle* output_gradients, size_t output_count,
                           const Handle* inputs, size_t input_count, int keep_graph, int create_graph,
                           List** gradients) {
  return guarded([&] {
    auto result = torch::autograd::Engine::get_default_engine().execute(
        edges(tensors(outputs, output_count)), tensors(output_gradients, output_count), keep_graph != 0,
        create_graph != 0, /*accumulate_grad=*/false, edges(tensors(inputs, input_count)));
    *gradients = new List(std::move(result));
  });
}

int dunnart_shim_backward(const Handle* outputs, const Handle* output_gradients, size_t output_count, int keep_graph) {
  return guarded([&] {
    torch::autograd::Engine::get_default_engine().execute(
        edges(tensors(outputs, output_count)), tensors(output_gradients, output_count), keep_graph != 0,
        /*create_graph=*/false, /*accumulate_grad=*/true);
  });
}

// A null gradient clears.
int dunnart_shim_set_grad(Handle tensor, Handle gradient) {
  return guarded([&] { tensor->mutable_grad() = gradient == nullptr ? at::Tensor() : *gradient; });
}

}  // extern "C"
