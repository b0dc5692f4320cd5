#include "storage/models/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/bytes.h"
#include "common/file.h"
#include "common/lfs_pointer.h"
#include "storage/files/atomic_file.h"
#include "storage/files/foreign_text.h"
#include "storage/models/safetensors_header.h"

namespace shoal::storage {
namespace {

constexpr std::uint64_t kPrefixBytes = 8;
constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit

class ParsedFile final : public SafetensorsFile {
 public:
  ParsedFile(std::map<std::string, TensorView> tensors, std::map<std::string, std::string> metadata)
      : tensors_(std::move(tensors)), metadata_(std::move(metadata)) {}
  const std::map<std::string, TensorView>& tensors() const override { return tensors_; }
  const std::map<std::string, std::string>& metadata() const override { return metadata_; }

  // Keeps the mapping alive as long as the views into it.
  void Own(std::shared_ptr<const MappedFile> file) { file_ = std::move(file); }

 private:
  const std::map<std::string, TensorView> tensors_;
  const std::map<std::string, std::string> metadata_;
  std::shared_ptr<const MappedFile> file_;
};

Status Damaged(const std::string& name, const std::string& cause) {
  return InvalidArgument(name + ": " + cause +
                         "; the file is damaged or no safetensors file, fetch it again");
}

// Every byte of the data must belong to exactly one tensor.
Status CheckOffsets(const SafetensorsHeader& header, std::uint64_t data_bytes,
                    const std::string& name) {
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    const std::string* tensor;
  };
  std::vector<Range> ranges;
  for (const auto& [tensor, entry] : header.tensors) {
    std::uint64_t bytes = 0;
    if (!TensorBytes(entry.dtype, entry.shape, &bytes)) {
      return Damaged(name, "the size of tensor " + Quoted(tensor) + " exceeds 64 bits");
    }
    if (entry.begin > entry.end || entry.end - entry.begin != bytes) {
      return Damaged(name, "the offsets of tensor " + Quoted(tensor) + " do not span its " +
                               std::to_string(bytes) + " bytes");
    }
    if (entry.end > data_bytes) {
      return Damaged(name,
                     "tensor " + Quoted(tensor) + " ends at byte " + std::to_string(entry.end) +
                         " of the data, but the file holds only " + std::to_string(data_bytes));
    }
    ranges.push_back({entry.begin, entry.end, &tensor});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t reached = 0;
  for (const Range& range : ranges) {
    if (range.begin != reached) {
      return Damaged(name, std::string(range.begin < reached ? "another tensor overlaps"
                                                             : "unused bytes lie before") +
                               " tensor " + Quoted(*range.tensor));
    }
    reached = range.end;
  }
  if (reached != data_bytes) {
    return Damaged(name, std::to_string(data_bytes - reached) + " bytes follow the last tensor");
  }
  return Status::Ok();
}

Result<std::shared_ptr<ParsedFile>> Parse(std::span<const std::byte> bytes,
                                          const std::string& name) {
  if (bytes.size() < kPrefixBytes) {
    return Damaged(name, "it has " + std::to_string(bytes.size()) +
                             " bytes, fewer than the 8 of the header length");
  }
  if (IsLfsPointer({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    return InvalidArgument(name + " is " + kLfsPointer);
  }
  const auto header_bytes = LoadLittle<std::uint64_t>(bytes.data());
  if (header_bytes > kHeaderBytesMax) {
    return Damaged(name, "its header length " + std::to_string(header_bytes) +
                             " is over the limit of " + std::to_string(kHeaderBytesMax));
  }
  if (header_bytes > bytes.size() - kPrefixBytes) {
    return Damaged(name, "its header of " + std::to_string(header_bytes) +
                             " bytes reaches past the end of the file");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kPrefixBytes,
                              static_cast<std::size_t>(header_bytes));
  SHOAL_ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(text, name));
  const auto data = bytes.subspan(kPrefixBytes + static_cast<std::size_t>(header_bytes));
  SHOAL_RETURN_IF_ERROR(CheckOffsets(header, data.size(), name));
  std::map<std::string, TensorView> tensors;
  for (auto& [tensor, entry] : header.tensors) {
    tensors.emplace(tensor,
                    TensorView{entry.dtype, std::move(entry.shape),
                               data.subspan(static_cast<std::size_t>(entry.begin),
                                            static_cast<std::size_t>(entry.end - entry.begin))});
  }
  return std::make_shared<ParsedFile>(std::move(tensors), std::move(header.metadata));
}

}  // namespace

Result<std::shared_ptr<const SafetensorsFile>> OpenSafetensors(const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<ParsedFile> parsed, Parse(file->bytes(), path));
  parsed->Own(std::move(file));
  return std::shared_ptr<const SafetensorsFile>(std::move(parsed));
}

Result<std::shared_ptr<const SafetensorsFile>> ParseSafetensors(std::span<const std::byte> bytes,
                                                                const std::string& name) {
  SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<ParsedFile> parsed, Parse(bytes, name));
  return std::shared_ptr<const SafetensorsFile>(std::move(parsed));
}

Result<std::string> BuildSafetensorsHeader(std::span<const TensorToWrite> tensors,
                                           const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  std::map<std::string_view, bool> seen;
  for (const TensorToWrite& tensor : tensors) {
    std::uint64_t bytes = 0;
    if (!TensorBytes(tensor.dtype, tensor.shape, &bytes)) {
      return InvalidArgument("the size of tensor " + Quoted(tensor.name) + " exceeds 64 bits");
    }
    if (tensor.name == "__metadata__" || !seen.emplace(tensor.name, true).second) {
      return InvalidArgument("tensor name " + Quoted(tensor.name) + " is reserved or used twice");
    }
    nlohmann::ordered_json entry;
    entry["dtype"] = DTypeName(tensor.dtype);
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, offset + bytes};
    // push_back instead of operator[], which searches the whole vector each time.
    header.get_ref<nlohmann::ordered_json::object_t&>().push_back({tensor.name, std::move(entry)});
    offset += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    return InvalidArgument("a tensor name or metadata text is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kHeaderBytesMax) {
    return ResourceExhausted("the header of " + std::to_string(tensors.size()) +
                             " tensors is over the limit of 100 MB");
  }
  return text;
}

Status WriteSafetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                        const std::map<std::string, std::string>& metadata) {
  for (const TensorToWrite& tensor : tensors) {
    std::uint64_t bytes = 0;
    if (TensorBytes(tensor.dtype, tensor.shape, &bytes) && bytes == tensor.data.size()) continue;
    return InvalidArgument("cannot write " + path + ": tensor " + Quoted(tensor.name) + " has " +
                           std::to_string(tensor.data.size()) +
                           " bytes of data, which do not fit its shape");
  }
  const Result<std::string> header = BuildSafetensorsHeader(tensors, metadata);
  if (!header.ok()) return header.status().WithContext("cannot write " + path);
  SHOAL_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  std::byte prefix[kPrefixBytes];
  StoreLittle<std::uint64_t>(prefix, header->size());
  SHOAL_RETURN_IF_ERROR(file->Append(prefix));
  SHOAL_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(*header))));
  for (const TensorToWrite& tensor : tensors) SHOAL_RETURN_IF_ERROR(file->Append(tensor.data));
  return file->Commit();
}

}  // namespace shoal::storage
