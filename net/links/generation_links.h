// GenerationLinks: how the peers of one generation of a run open their links, and which frames
// belong on these. Pure but for what the hub does. Thread: the hub's.

#ifndef SHOAL_NET_LINKS_GENERATION_LINKS_H_
#define SHOAL_NET_LINKS_GENERATION_LINKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/ids.h"
#include "common/status.h"
#include "net/links/link.h"

namespace shoal::net {

class GenerationLinks {
 public:
  // `hub` outlives it.
  GenerationLinks(LinkHub* hub, const RunId& run, std::uint64_t generation)
      : hub_(hub), run_(run), generation_(generation) {}

  // The end with the lower position dials.
  std::unique_ptr<Link> Open(const LinkTarget& target, bool lower, LinkHandlers handlers) const {
    return lower ? hub_->Dial(target, std::move(handlers))
                 : hub_->Accept(target, std::move(handlers));
  }
  // With nothing but run, generation, kind and micro-batch filled in.
  Frame NewFrame(FrameKind kind, MicroBatchId id) const {
    Frame frame;
    frame.kind = kind;
    frame.run = run_;
    frame.generation = generation_;
    frame.micro_batch = id;
    return frame;
  }
  // Whether a frame belongs to this run and generation.
  Status CheckFrame(const Frame& frame) const {
    if (frame.run == run_ && frame.generation == generation_) return Status::Ok();
    return FailedPrecondition("a frame names run " + frame.run.ToHex() + " generation " +
                              std::to_string(frame.generation) + ", but this link carries run " +
                              run_.ToHex() + " generation " + std::to_string(generation_));
  }

 private:
  LinkHub* const hub_;
  const RunId run_;
  const std::uint64_t generation_;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_GENERATION_LINKS_H_
