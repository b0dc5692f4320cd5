#include "model/state_files.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "common/checksum.h"
#include "common/file.h"

namespace shoal::model {
namespace {

// 0: weights; 1, 2: the moments.
std::size_t NumberOf(StateVector which) {
  switch (which) {
    case StateVector::kWeights: return 0;
    case StateVector::kFirstMoment: return 1;
    case StateVector::kSecondMoment: return 2;
    case StateVector::kGradients: break;
  }
  SHOAL_CHECK(which != StateVector::kGradients);
  return 0;
}

std::string MomentName(const ParameterEntry& entry, std::size_t number) {
  return number == 0 ? entry.name : entry.name + std::string(kMomentSuffixes[number - 1]);
}

// Some of a file's tensor as fp32; copies first, because file bytes may be unaligned.
void Convert(const storage::TensorView& tensor, std::size_t first, std::span<float> to) {
  const std::size_t bytes = storage::DTypeBytes(tensor.dtype);
  const std::byte* const from = tensor.data.data() + first * bytes;
  if (tensor.dtype == storage::DType::kF32) {
    std::memcpy(to.data(), from, to.size_bytes());
    return;
  }
  const auto count = static_cast<std::int64_t>(to.size());
  const at::Tensor halves =
      at::empty({count}, tensor.dtype == storage::DType::kF16 ? at::kHalf : at::kBFloat16);
  std::memcpy(halves.data_ptr(), from, to.size() * bytes);
  at::from_blob(to.data(), {count}, at::kFloat).copy_(halves);
}

}  // namespace

StateFiles::StateFiles(std::string folder, const std::vector<ParameterEntry>& entries,
                       const std::vector<StagePart>& parts, bool weights)
    : folder_(std::move(folder)), weights_(weights), entries_(entries), locations_(entries.size()) {
  for (const StagePart& part : parts) {
    for (std::size_t i = 0; i < part.entries.size(); ++i) {
      locations_[part.entries[i]].emplace_back(parts_.size(), i);
    }
    parts_.push_back({part, {}, {}});
  }
  for (const ParameterEntry& entry : entries_) size_ += entry.size;
  Drop();
}

StateFiles::~StateFiles() { Drop(); }

void StateFiles::Drop() {
  for (Part& part : parts_) {
    part.weights.file.reset();
    part.moments.file.reset();
  }
  written_ = {};
  std::error_code error;  // what cannot be removed is written over
  std::filesystem::remove_all(folder_, error);
}

void StateFiles::SetSource(std::size_t part, bool weights,
                           std::shared_ptr<const storage::SafetensorsFile> file) {
  (weights ? parts_[part].weights : parts_[part].moments).source = std::move(file);
}

template <typename Visit>
Status StateFiles::ForEntries(std::size_t first, std::size_t count, const Visit& visit) const {
  const auto behind = [](std::size_t at, const ParameterEntry& e) { return at < e.offset; };
  auto entry = std::upper_bound(entries_.begin(), entries_.end(), first, behind);
  if (entry != entries_.begin()) --entry;
  for (std::size_t done = 0; done < count; ++entry) {
    SHOAL_CHECK(entry != entries_.end());
    const std::size_t skipped = first + done - entry->offset;
    const std::size_t here = std::min(count - done, entry->size - skipped);
    const auto number = static_cast<std::size_t>(entry - entries_.begin());
    SHOAL_RETURN_IF_ERROR(visit(number, skipped, done, here));
    done += here;
  }
  return Status::Ok();
}

Status StateFiles::Read(StateVector which, std::size_t first, std::span<float> values) const {
  const std::size_t number = NumberOf(which);
  return ForEntries(
      first, values.size(),
      [&](std::size_t index, std::size_t skipped, std::size_t done, std::size_t count) {
        const Part& part = parts_[locations_[index].front().first];
        const auto& source = (number == 0 ? part.weights : part.moments).source;
        const std::span<float> to = values.subspan(done, count);
        if (source == nullptr) {
          std::ranges::fill(to, 0.0F);
          return Status::Ok();
        }
        const ParameterEntry& entry = entries_[index];
        const storage::TensorView& tensor = source->tensors().at(MomentName(entry, number));
        SHOAL_CHECK(tensor.data.size() == entry.size * storage::DTypeBytes(tensor.dtype));
        Convert(tensor, skipped, to);
        return Status::Ok();
      });
}

std::string StateFiles::PathOf(const Part& part, bool weights, const std::string& folder) const {
  return folder + "/" + part.part.name + (weights ? ".safetensors" : ".optimizer.safetensors");
}

Status StateFiles::Begin() {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(folder_, 0700));
  for (Part& part : parts_) {
    std::vector<storage::TensorToWrite> weights, moments;
    for (const std::size_t index : part.part.entries) {
      const ParameterEntry& entry = entries_[index];
      weights.push_back({entry.name, storage::DType::kF32, entry.shape, {}});
      for (std::size_t number = 1; number < written_.size(); ++number) {
        moments.push_back({MomentName(entry, number), storage::DType::kF32, entry.shape, {}});
      }
    }
    const std::map<std::string, std::string> metadata = {{"part", part.part.name}};
    SHOAL_ASSIGN_OR_RETURN(part.moments.file, storage::TensorFile::Create(
                                                  PathOf(part, false, folder_), moments, metadata));
    if (!weights_) continue;
    SHOAL_ASSIGN_OR_RETURN(part.weights.file, storage::TensorFile::Create(
                                                  PathOf(part, true, folder_), weights, metadata));
  }
  return Status::Ok();
}

Status StateFiles::Write(StateVector which, std::size_t first, std::span<const float> values) {
  const std::size_t number = NumberOf(which);
  SHOAL_CHECK(number > 0 || weights_);
  if (values.empty()) return Status::Ok();
  if (parts_.front().moments.file == nullptr) SHOAL_RETURN_IF_ERROR(Begin());
  written_[number] += values.size();
  return ForEntries(
      first, values.size(),
      [&](std::size_t index, std::size_t skipped, std::size_t done, std::size_t count) {
        const auto bytes = std::as_bytes(values.subspan(done, count));
        for (const auto& [part, index_in_part] : locations_[index]) {
          storage::TensorFile& file =
              number == 0 ? *parts_[part].weights.file : *parts_[part].moments.file;
          const std::size_t tensor =
              number == 0 ? index_in_part : index_in_part * kMomentSuffixes.size() + number - 1;
          SHOAL_RETURN_IF_ERROR(file.Write(tensor, skipped * sizeof(float), bytes));
        }
        return Status::Ok();
      });
}

Status StateFiles::MoveTo(const std::string& folder) {
  for (std::size_t number = weights_ ? 0 : 1; number < written_.size(); ++number) {
    if (written_[number] == size_) continue;
    return FailedPrecondition("the stage's state is not here: " + std::to_string(written_[number]) +
                              " of " + std::to_string(size_) + " values of a vector were gathered");
  }
  for (const Part& part : parts_) {
    for (const bool weights : {false, true}) {
      if (weights && !weights_) continue;
      const std::string to = PathOf(part, weights, folder);
      if (::rename(PathOf(part, weights, folder_).c_str(), to.c_str()) != 0) {
        return FromErrno(errno, "move the stage's state to " + to);
      }
    }
  }
  Drop();
  return Status::Ok();
}

std::uint64_t StateFiles::WeightChecksum() const {
  if (written_[0] != size_) return 0;
  std::uint64_t checksum = 0;
  for (const Part& part : parts_) {
    const auto file = storage::OpenSafetensors(PathOf(part, true, folder_));
    if (!file.ok()) return 0;
    for (const std::size_t index : part.part.entries) {
      checksum = Checksum64((*file)->tensors().at(entries_[index].name).data, checksum);
    }
  }
  return checksum;
}

}  // namespace shoal::model
