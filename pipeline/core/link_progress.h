// LinkProgress: whether bytes moved on links, as a large frame on a slow line does long before it
// is complete. Thread: one at a time.

#ifndef SHOAL_PIPELINE_CORE_LINK_PROGRESS_H_
#define SHOAL_PIPELINE_CORE_LINK_PROGRESS_H_

#include <cstdint>
#include <vector>

#include "net/links/link.h"

namespace shoal::pipeline {

// Far more than pings make.
inline constexpr std::uint64_t kProgressBytes = 16 * 1024;

inline std::uint64_t BytesOf(const net::LinkStats& link) {
  return link.sent_wire_bytes + link.received_wire_bytes;
}

class LinkProgress {
 public:
  // Since this was asked last.
  bool Moved(const std::vector<net::LinkStats>& links) {
    std::uint64_t bytes = 0;
    for (const net::LinkStats& link : links) bytes += BytesOf(link);
    const bool moved = bytes - seen_ > kProgressBytes;
    seen_ = bytes;
    return moved;
  }

 private:
  std::uint64_t seen_ = 0;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_LINK_PROGRESS_H_
