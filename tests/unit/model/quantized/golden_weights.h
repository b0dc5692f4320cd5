// tests/data/quantized: what bitsandbytes makes of small matrices (tests/models/make_quantized.py).

#ifndef SHOAL_TESTS_UNIT_MODEL_QUANTIZED_GOLDEN_WEIGHTS_H_
#define SHOAL_TESTS_UNIT_MODEL_QUANTIZED_GOLDEN_WEIGHTS_H_

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/models/float_bytes.h"
#include "storage/models/model_directory.h"
#include "storage/models/safetensors.h"

namespace shoal::model {

inline const std::vector<std::string> kNf4Cases = {"nf4", "nf4_special", "nf4_odd", "nf4_bf16",
                                                   "nf4_plain_fp16"};
inline const std::vector<std::string> kInt8Cases = {"int8", "int8_fp16"};

// "source", "decoded", "block_absmax" (nf4), and what a layer of bitsandbytes saves.
inline std::shared_ptr<const storage::SafetensorsFile> Golden(const std::string& name) {
  const char* data = std::getenv("SHOAL_TEST_DATA");
  return storage::OpenSafetensors(std::string(data == nullptr ? "tests/data" : data) +
                                  "/quantized/" + name + ".safetensors")
      .value();
}

inline std::vector<float> Floats(const storage::TensorView& view) {
  std::vector<float> values(view.data.size() / storage::DTypeBytes(view.dtype));
  storage::ReadFloats(view.dtype, view.data, values);
  return values;
}

inline std::vector<std::byte> Bytes(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

template <typename T>
std::vector<std::byte> BytesOf(const T& values) {
  return Bytes(std::as_bytes(std::span(values)));
}

}  // namespace shoal::model

#endif  // SHOAL_TESTS_UNIT_MODEL_QUANTIZED_GOLDEN_WEIGHTS_H_
