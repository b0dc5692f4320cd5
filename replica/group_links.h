// GroupLinks: links to the peers that hold the same parameters, and the groups that these links
// carry. The groups are the stage group and, for tensors that stages share, the peers of these
// stages, of all pipelines and of the own one.
//
// Stage group: ordered by pipeline. Shared group: by stage, then by pipeline; it uses the stage
// group's links and one to each peer of the other stages. Shared ends: the own pipeline's, by
// stage. The lower stage dials, then the lower pipeline. A message is a kGroup or kState frame:
// group number in the place of the micro-batch, tag and payload. Thread: control.

#ifndef SHOAL_REPLICA_GROUP_LINKS_H_
#define SHOAL_REPLICA_GROUP_LINKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/links/generation_links.h"
#include "replica/collective/group_channel.h"
#include "replica/member.h"

namespace shoal::replica {

class GroupLinks {
 public:
  // `stage_group`: by pipeline, the own place is not used; empty: there is one pipeline.
  // `shared`: of the stages MemberConfig::sharing, by stage, then pipeline; the own stage's places
  // are not used. In both a peer of all zeros is nobody, as if it had left: it must
  // not count in any exchange, or others wait for it.
  GroupLinks(Member* member, const net::GenerationLinks& links,
             const std::vector<net::LinkTarget>& stage_group,
             const std::vector<net::LinkTarget>& shared, std::function<void()> on_up);
  ~GroupLinks();

  void Open();
  bool up() const {
    SHOAL_ASSERT_ON(*member_->control);
    return open_ == links_wanted_;
  }
  // The peer of a stage in a pipeline, if it has a link, has left the generation: nothing is sent
  // to it any more.
  void Leave(std::uint32_t pipeline, std::uint32_t stage);
  std::string Missing(const PeerId** peer) const;  // names a peer whose link is not open
  std::vector<net::LinkStats> link_stats() const;

  // Null where the group has no other member; they live as long as this object.
  collective::GroupChannel* stage_group() const;
  collective::GroupChannel* shared_group() const;
  // Members of the shared group per pipeline. Thread: any.
  std::uint32_t copies() const {
    return static_cast<std::uint32_t>(member_->config.sharing.size());
  }
  collective::GroupChannel* shared_ends() const;  // of the own pipeline
  // The stage group again, for state/state_transfer.h.
  collective::GroupChannel* state_group() const;
  // Of a group above.
  const PeerId& peer(const collective::GroupChannel& group, std::size_t member) const;
  std::string Name(const collective::GroupChannel& group, std::size_t member) const;

 private:
  class Group;
  struct Peer {
    net::LinkTarget target;
    std::uint32_t stage = 0, pipeline = 0;
    bool open = false;
    bool gone = false;  // what is sent to it goes nowhere
    std::unique_ptr<net::Link> link;
  };
  std::string Name(const Peer& peer) const;
  bool Skipped(const Peer& peer) const;  // itself
  void OpenTo(Peer* peer);
  void OnClosed(Peer* peer, Status status);
  void OnFrame(Peer* from, net::Frame frame);
  // The generation fails by what this peer, a place in peers_, sent.
  void Blame(std::size_t peer, const Status& status);
  Status Send(std::size_t peer, std::uint32_t group, std::uint64_t tag, Buffer payload);

  Member* const member_;
  const net::GenerationLinks links_;
  const std::function<void()> on_up_;
  std::size_t links_wanted_ = 0, open_ = 0;
  std::vector<std::unique_ptr<Group>> groups_;  // by number; may be null
  std::vector<Peer> peers_;                     // last: the links' handlers use everything above
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_GROUP_LINKS_H_
