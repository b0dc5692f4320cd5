// Stores on a disk that takes nothing while a flag says so.

#ifndef SHOAL_TESTS_SUPPORT_FULL_DISK_H_
#define SHOAL_TESTS_SUPPORT_FULL_DISK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/checkpoints/checkpoint_store.h"
#include "storage/files/content_store.h"

namespace shoal::test_support {

inline Status DiskFull() { return ResourceExhausted("no space left on device"); }

// `full` outlives it.
class FullContentStore final : public storage::ContentStore {
 public:
  FullContentStore(std::unique_ptr<ContentStore> inside, const bool* full)
      : inside_(std::move(inside)), full_(*full) {}

  bool Has(const storage::ContentHash& hash) const override { return inside_->Has(hash); }
  Result<std::string> PathOf(const storage::ContentHash& hash) const override {
    return inside_->PathOf(hash);
  }
  Result<storage::ContentHash> Put(std::span<const std::byte> bytes) override {
    if (full_) return DiskFull();
    return inside_->Put(bytes);
  }
  Result<storage::ContentHash> PutFile(const std::string& path) override {
    if (full_) return DiskFull();
    return inside_->PutFile(path);
  }
  Result<std::string> Read(const storage::ContentHash& hash, std::uint64_t offset,
                           std::size_t size) const override {
    return inside_->Read(hash, offset, size);
  }
  std::uint64_t PartialSize(const storage::ContentHash& hash) const override {
    return inside_->PartialSize(hash);
  }
  // A short write: the first half is there.
  Status AppendPartial(const storage::ContentHash& hash, std::uint64_t offset,
                       std::span<const std::byte> bytes) override {
    if (!full_) return inside_->AppendPartial(hash, offset, bytes);
    SHOAL_RETURN_IF_ERROR(inside_->AppendPartial(hash, offset, bytes.first(bytes.size() / 2)));
    return DiskFull();
  }
  Status FinishPartial(const storage::ContentHash& hash, std::uint64_t size) override {
    return inside_->FinishPartial(hash, size);
  }
  Status Remove(const storage::ContentHash& hash) override { return inside_->Remove(hash); }
  Status KeepOnly(std::span<const storage::ContentHash> hashes) override {
    return inside_->KeepOnly(hashes);
  }
  std::vector<storage::ContentHash> Hashes() const override { return inside_->Hashes(); }
  std::uint64_t bytes() const override { return inside_->bytes(); }

 private:
  const std::unique_ptr<ContentStore> inside_;
  const bool& full_;
};

// Fails once all is written but the manifest. `full` outlives it.
class FullCheckpointStore final : public storage::CheckpointStore {
 public:
  FullCheckpointStore(std::unique_ptr<CheckpointStore> inside, const bool* full)
      : inside_(std::move(inside)), full_(*full) {}

  Result<storage::Checkpoint> Save(RunId run, std::uint64_t step,
                                   const std::function<Status(const std::string& folder)>& write,
                                   int keep) override {
    const auto until_full = [&](const std::string& folder) {
      SHOAL_RETURN_IF_ERROR(write(folder));
      return full_ ? DiskFull() : Status::Ok();
    };
    return inside_->Save(run, step, until_full, keep);
  }
  Result<std::vector<storage::Checkpoint>> List(RunId run) override { return inside_->List(run); }
  Result<storage::Checkpoint> Load(RunId run, std::uint64_t step) override {
    return inside_->Load(run, step);
  }
  std::vector<storage::StoredRun> Runs() const override { return inside_->Runs(); }
  Status DropRun(RunId run) override { return inside_->DropRun(run); }

 private:
  const std::unique_ptr<CheckpointStore> inside_;
  const bool& full_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_FULL_DISK_H_
