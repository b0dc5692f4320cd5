// TensorFile: a safetensors file written piece by piece in any order, by who never holds a whole
// tensor.
//
// Thread: one at a time.

#ifndef SHOAL_STORAGE_MODELS_TENSOR_FILE_H_
#define SHOAL_STORAGE_MODELS_TENSOR_FILE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "storage/files/descriptor.h"
#include "storage/models/safetensors.h"

namespace shoal::storage {

class TensorFile {
 public:
  // Creates `path`, or empties it. Of `tensors` name, dtype and shape count. What is not written is
  // zero; once all is, the file is what WriteSafetensors makes of the same tensors.
  static Result<std::unique_ptr<TensorFile>> Create(
      const std::string& path, std::span<const TensorToWrite> tensors,
      const std::map<std::string, std::string>& metadata);

  const std::string& path() const { return path_; }
  // Bytes from `offset` on of a tensor, by its index in `tensors`. What would reach beyond the
  // tensor is an invalid argument. Not durable: fsync, or rename and then fsync, is the caller's.
  Status Write(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> bytes);

 private:
  struct Extent {
    std::uint64_t begin = 0, bytes = 0;  // in the file
  };
  TensorFile(std::string path, int fd) : path_(std::move(path)), file_(fd) {}

  const std::string path_;
  const Descriptor file_;
  std::vector<Extent> extents_;
};

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_MODELS_TENSOR_FILE_H_
