#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "storage/delta/indexed_delta_store.h"

namespace shoal::storage {
namespace {

class MemoryDeltaBackend final : public DeltaBackend {
 public:
  Status VisitHeaders(
      const std::function<void(std::string_view, std::span<const std::byte>)>& visit) override {
    for (const auto& [key, value] : values_) {
      visit(key, std::as_bytes(std::span(value)).first(kDeltaHeaderBytes));
    }
    return Status::Ok();
  }
  Status Read(const std::string& key, DeltaHeaderBytes* header, Buffer* image) override {
    const auto found = values_.find(key);
    if (found == values_.end()) return NotFound("no such record");
    const auto value = std::as_bytes(std::span(found->second));
    std::copy_n(value.begin(), header->size(), header->begin());
    *image = Buffer::CopyOf(value.subspan(header->size()));
    return Status::Ok();
  }
  Result<StagedImage> Stage(const std::string&, const DeltaHeaderBytes& header,
                            std::span<const std::byte> image) override {
    std::string& value = staged_[++last_staged_];
    value.assign(reinterpret_cast<const char*>(header.data()), header.size());
    value.append(reinterpret_cast<const char*>(image.data()), image.size());
    return last_staged_;
  }
  void Unstage(StagedImage image) override { staged_.erase(image); }
  Status Write(std::span<const Put> puts, std::span<const std::string> removals) override {
    for (const Put& put : puts) values_[put.key] = std::move(staged_.extract(put.image).mapped());
    for (const std::string& key : removals) values_.erase(key);
    return Status::Ok();
  }
  Status Flush() override { return Status::Ok(); }
  Status Compact() override { return Status::Ok(); }
  bool BeginAnewIfGone() override { return false; }
  Usage usage() const override { return {}; }

 private:
  std::map<std::string, std::string> values_;
  std::map<StagedImage, std::string> staged_;
  StagedImage last_staged_ = 0;
};

}  // namespace

std::unique_ptr<DeltaStore> NewMemoryDeltaStore(std::uint64_t bytes_max, std::string notice) {
  auto store = NewIndexedDeltaStore(std::make_unique<MemoryDeltaBackend>(), {.bytes = bytes_max},
                                    std::move(notice));
  SHOAL_CHECK(store.ok());
  return std::move(store).value();
}

}  // namespace shoal::storage
