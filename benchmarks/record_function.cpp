// Looks for NaN and Inf in the outputs of all ops with torch's own observer in C++, for varying.py.
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

namespace {

long long found;
at::CallbackHandle handle;

// A number that is not finite, times zero, is NaN.
template <typename Number>
bool are_finite(const void* data, int64_t count) {
  const auto* numbers = static_cast<const Number*>(data);
  Number sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += numbers[i] * Number(0);
  return sum == 0;
}

void screen(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || !tensor.is_cpu() || !tensor.is_contiguous())
    return;
  if (tensor.scalar_type() == at::kFloat)
    found += !are_finite<float>(tensor.unsafeGetTensorImpl()->data(), tensor.numel());
  else if (tensor.scalar_type() == at::kDouble)
    found += !are_finite<double>(tensor.unsafeGetTensorImpl()->data(), tensor.numel());
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) { return nullptr; }

void end(const at::RecordFunction& function, at::ObserverContext*) {
  for (const c10::IValue& value : function.outputs()) {
    if (value.isTensor()) screen(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) screen(tensor);
  }
}

}  // namespace

extern "C" void start() {
  found = 0;
  at::RecordFunctionCallback callback(begin, end);
  callback.needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION});
  handle = at::addGlobalCallback(callback);
}

extern "C" long long stop() {
  at::removeCallback(handle);
  return found;
}
