#include "model/state_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/file.h"

namespace shoal::model {
namespace {

std::size_t MomentOf(StateVector which) {
  SHOAL_CHECK(which == StateVector::kFirstMoment || which == StateVector::kSecondMoment);
  return which == StateVector::kFirstMoment ? 0 : 1;
}

}  // namespace

StateFiles::StateFiles(std::string folder, const std::vector<ParameterEntry>& entries,
                       const std::vector<StagePart>& parts)
    : folder_(std::move(folder)), entries_(entries), places_(entries.size()) {
  for (const StagePart& part : parts) {
    for (std::size_t i = 0; i < part.entries.size(); ++i) {
      places_[part.entries[i]].emplace_back(parts_.size(), i);
    }
    parts_.push_back({part, nullptr, nullptr});
  }
  for (const ParameterEntry& entry : entries_) size_ += entry.size;
  Drop();
}

StateFiles::~StateFiles() { Drop(); }

void StateFiles::Drop() {
  for (Part& part : parts_) part.file.reset();
  written_ = {};
  std::error_code error;  // what cannot be removed is written over
  std::filesystem::remove_all(folder_, error);
}

void StateFiles::SetSource(std::size_t part, std::shared_ptr<const storage::SafetensorsFile> file) {
  parts_[part].source = std::move(file);
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
  const std::string_view suffix = kMomentSuffixes[MomentOf(which)];
  return ForEntries(
      first, values.size(),
      [&](std::size_t number, std::size_t skipped, std::size_t done, std::size_t count) {
        const auto& source = parts_[places_[number].front().first].source;
        float* const to = values.data() + done;
        if (source == nullptr) {
          std::fill_n(to, count, 0.0F);
          return Status::Ok();
        }
        const storage::TensorView& tensor =
            source->tensors().at(entries_[number].name + std::string(suffix));
        SHOAL_CHECK(tensor.data.size() == entries_[number].size * sizeof(float));
        std::memcpy(to, tensor.data.data() + skipped * sizeof(float), count * sizeof(float));
        return Status::Ok();
      });
}

std::string StateFiles::PathOf(const Part& part, const std::string& folder) const {
  return folder + "/" + part.part.name + ".optimizer.safetensors";
}

Status StateFiles::Begin() {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(folder_, 0700));
  for (Part& part : parts_) {
    std::vector<storage::TensorToWrite> tensors;
    for (const std::size_t index : part.part.entries) {
      for (const std::string_view suffix : kMomentSuffixes) {
        const ParameterEntry& entry = entries_[index];
        tensors.push_back(
            {entry.name + std::string(suffix), storage::DType::kF32, entry.shape, {}});
      }
    }
    SHOAL_ASSIGN_OR_RETURN(part.file, storage::TensorFile::Create(PathOf(part, folder_), tensors,
                                                                  {{"part", part.part.name}}));
  }
  return Status::Ok();
}

Status StateFiles::Write(StateVector which, std::size_t first, std::span<const float> values) {
  const std::size_t moment = MomentOf(which);
  if (values.empty()) return Status::Ok();
  if (parts_.front().file == nullptr) SHOAL_RETURN_IF_ERROR(Begin());
  written_[moment] += values.size();
  return ForEntries(
      first, values.size(),
      [&](std::size_t number, std::size_t skipped, std::size_t done, std::size_t count) {
        const auto bytes = std::as_bytes(values.subspan(done, count));
        for (const auto& [part, place] : places_[number]) {
          SHOAL_RETURN_IF_ERROR(parts_[part].file->Write(place * kMomentSuffixes.size() + moment,
                                                         skipped * sizeof(float), bytes));
        }
        return Status::Ok();
      });
}

Status StateFiles::MoveTo(const std::string& folder) {
  for (const std::size_t written : written_) {
    if (written == size_) continue;
    return FailedPrecondition(
        "the stage's optimizer state is not here: " + std::to_string(written) + " of " +
        std::to_string(size_) + " values of a moment were gathered");
  }
  for (const Part& part : parts_) {
    const std::string to = PathOf(part, folder);
    if (::rename(PathOf(part, folder_).c_str(), to.c_str()) != 0) {
      return FromErrno(errno, "move the stage's optimizer state to " + to);
    }
  }
  Drop();
  return Status::Ok();
}

}  // namespace shoal::model
