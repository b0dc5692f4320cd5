#include "storage/models/tensor_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/bytes.h"
#include "common/regular_file.h"
#include "storage/files/atomic_file.h"
#include "storage/models/safetensors_header.h"

namespace shoal::storage {

Result<std::unique_ptr<TensorFile>> TensorFile::Create(
    const std::string& path, std::span<const TensorToWrite> tensors,
    const std::map<std::string, std::string>& metadata) {
  const Result<std::string> header = BuildSafetensorsHeader(tensors, metadata);
  if (!header.ok()) return header.status().WithContext("cannot write " + path);
  SHOAL_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, O_WRONLY | O_CREAT | O_TRUNC));
  std::unique_ptr<TensorFile> file(new TensorFile(path, fd));
  std::byte prefix[sizeof(std::uint64_t)];
  StoreLittle<std::uint64_t>(prefix, header->size());
  SHOAL_RETURN_IF_ERROR(WriteFully(fd, prefix, path));
  SHOAL_RETURN_IF_ERROR(WriteFully(fd, std::as_bytes(std::span(*header)), path));
  std::uint64_t at = sizeof(prefix) + header->size();
  for (const TensorToWrite& tensor : tensors) {
    std::uint64_t bytes = 0;
    SHOAL_CHECK(TensorBytes(tensor.dtype, tensor.shape, &bytes));
    file->extents_.push_back({at, bytes});
    at += bytes;
  }
  if (::ftruncate(fd, static_cast<off_t>(at)) != 0) return FromErrno(errno, "enlarge " + path);
  return file;
}

Status TensorFile::Write(std::size_t tensor, std::uint64_t offset,
                         std::span<const std::byte> bytes) {
  if (tensor >= extents_.size() || offset > extents_[tensor].bytes ||
      bytes.size() > extents_[tensor].bytes - offset) {
    return InvalidArgument("bytes " + std::to_string(offset) + " to " +
                           std::to_string(offset + bytes.size()) + " of tensor " +
                           std::to_string(tensor) + " are not in " + path_);
  }
  std::uint64_t at = extents_[tensor].begin + offset;
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(file_.fd(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FromErrno(errno, "write " + path_);
    at += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return Status::Ok();
}

}  // namespace shoal::storage
