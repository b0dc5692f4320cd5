// safetensors files: a checked, memory-mapped reader and an atomic writer. Never code, only data.

#ifndef SHOAL_STORAGE_MODELS_SAFETENSORS_H_
#define SHOAL_STORAGE_MODELS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "storage/models/tensor_view.h"

namespace shoal::storage {

// One file. Views stay valid while the object lives. Thread: any.
class SafetensorsFile {
 public:
  virtual ~SafetensorsFile() = default;
  virtual const std::map<std::string, TensorView>& tensors() const = 0;
  virtual const std::map<std::string, std::string>& metadata() const = 0;
};

// Maps and checks `path`: header length, JSON, dtypes, shapes, offsets contiguous without holes or
// overlap, nothing behind the data. The error names file, tensor and cause.
Result<std::shared_ptr<const SafetensorsFile>> OpenSafetensors(const std::string& path);
// The same checks on bytes in memory, which must outlive the result.
Result<std::shared_ptr<const SafetensorsFile>> ParseSafetensors(std::span<const std::byte> bytes,
                                                                const std::string& name);

// Writes atomically (temporary, fsync, rename), tensors in the given order, header padded to 8.
Status WriteSafetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                        const std::map<std::string, std::string>& metadata);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_MODELS_SAFETENSORS_H_
