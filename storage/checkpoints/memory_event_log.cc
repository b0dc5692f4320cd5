#include <string>
#include <vector>

#include "storage/checkpoints/event_log.h"

namespace shoal::storage {
namespace {

class MemoryEventLog final : public EventLog {
 public:
  Result<std::uint64_t> Append(std::string_view event) override {
    events_.emplace_back(event);
    return std::uint64_t{events_.size()};
  }
  Status Replay(const std::function<Status(std::uint64_t, std::string_view)>& visit) override {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      SHOAL_RETURN_IF_ERROR(visit(i + 1, events_[i]));
    }
    return Status::Ok();
  }

 private:
  std::vector<std::string> events_;
};

}  // namespace

std::unique_ptr<EventLog> NewMemoryEventLog() { return std::make_unique<MemoryEventLog>(); }

}  // namespace shoal::storage
