#include "scheduler/swarm/members.h"

#include <algorithm>

#include "common/text.h"
#include "net/base/host_port.h"
#include "net/relay/relay_address.h"
#include "scheduler/peers/peer_message_check.h"

namespace shoal::scheduler {
namespace {

using AddressTexts = google::protobuf::RepeatedPtrField<std::string>;

std::string HostPort(const std::string& host, std::uint32_t port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  return (bare_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

// What the peer says of itself, then where we see it, then by which relays it is reached.
std::vector<std::string> DialAddresses(const AddressTexts& said, std::uint32_t listen_port,
                                       const std::string& seen) {
  std::vector<std::string> addresses;
  if (listen_port == 0) return addresses;
  const auto add = [&](const std::string& host) {
    if (host.empty()) return;
    const std::string clean = CleanText(host, kAddressCharactersMax);
    const auto whole = net::ParseHostPort(clean);
    std::string address = whole.ok() ? clean : HostPort(clean, listen_port);
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(std::move(address));
    }
  };
  for (const std::string& host : said) {
    if (!net::IsRelayAddress(host)) add(host);
  }
  add(seen);
  for (const std::string& host : said) {
    if (net::IsRelayAddress(host) && net::ParseRelayAddress(host).ok()) addresses.push_back(host);
  }
  return addresses;
}

}  // namespace

std::string Member::Label() const {
  return (name.empty() ? "peer" : name) + " (" + peer.ToShort() + ")";
}

std::string Member::LabelWithPosition() const {
  const std::string label = "peer " + Label();
  if (!placed()) return label + ", a spare";
  return label + " of stage " + std::to_string(stage) + ", pipeline " + std::to_string(pipeline);
}

std::string Member::HandsOver() const {
  return LabelWithPosition() + " hands its stage over: " + going;
}

std::string Member::CannotSave() const {
  return LabelWithPosition() + " cannot save checkpoints: " + save_error;
}

void Members::Open(ConnectionId connection, const PeerId& peer, const std::string& address,
                   TimePoint now) {
  connections_[connection] = Connection{peer, address, now, false};
}

void Members::Close(ConnectionId connection) {
  if (Member* member = Of(connection)) {
    member->connected = false;
    member->held.Clear();
    moved_.insert(member->peer);
    status_bytes_ -= member->status_json.size();
    member->status_json = std::string();  // with its memory
  }
  connections_.erase(connection);
}

Connection* Members::FindConnection(ConnectionId connection) {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : &found->second;
}

Member* Members::Of(ConnectionId connection) {
  const Connection* open = FindConnection(connection);
  if (open == nullptr || !open->admitted) return nullptr;
  Member* member = Find(open->peer);
  const bool current = member != nullptr && member->connected && member->connection == connection;
  return current ? member : nullptr;
}

Member* Members::Find(const PeerId& peer) {
  const auto found = members_.find(peer);
  return found == members_.end() ? nullptr : &found->second;
}

const Member* Members::Find(const PeerId& peer) const {
  return const_cast<Members*>(this)->Find(peer);
}

Member* Members::Admit(ConnectionId connection, const control::v1::Hello& hello, TimePoint now) {
  Connection* open = FindConnection(connection);
  SHOAL_CHECK(open != nullptr);
  open->admitted = true;
  const auto [entry, fresh] = members_.try_emplace(open->peer);
  Member& member = entry->second;
  moved_.insert(open->peer);
  if (fresh) {
    member.peer = open->peer;
    member.joined = ++joined_;
  }
  member.name = CleanText(hello.name(), kNameCharactersMax);
  member.device = CleanText(hello.device(), kDeviceCharactersMax);
  member.address = open->address;
  member.listen_port = hello.listen_port();
  std::vector<std::string> addresses =
      DialAddresses(hello.addresses(), member.listen_port, open->address);
  member.addresses_new = member.addresses_new || member.addresses != addresses;
  member.addresses = std::move(addresses);
  member.mapped_address.clear();
  member.memory_bytes = hello.memory_bytes();
  member.wants_stage = !hello.paused();
  member.state = hello.paused() ? "paused" : "joining";
  member.connected = true;
  member.connection = connection;
  member.held = hello.held();
  member.preparation = {std::nullopt, false, member.preparation.not_before};
  member.told_plan = member.follows = false;
  member.last_heard = now;
  member.watch = {};
  return &member;
}

void Members::KeepAddresses(Member* member, const control::v1::Heartbeat& heartbeat) {
  const std::vector<std::string> before = member->addresses;
  if (heartbeat.addresses_size() > 0) {
    member->addresses = DialAddresses(heartbeat.addresses(), member->listen_port, member->address);
    member->mapped_address.clear();
  }
  KeepMapped(member, heartbeat.mapped_address());
  member->addresses_new = member->addresses_new || member->addresses != before;
}

void Members::AddressesPlanned() {
  for (auto& [peer, member] : members_) member.addresses_new = false;
}

void Members::KeepMapped(Member* member, const std::string& address) {
  if (address == member->mapped_address) return;
  const auto same = [](const std::string& text) {
    return [&text](const std::string& other) { return other == text; };
  };
  if (!member->mapped_address.empty()) {
    std::erase_if(member->addresses, same(member->mapped_address));
  }
  member->mapped_address.clear();
  if (!net::ParseHostPort(address).ok() || address.size() > kAddressCharactersMax) return;
  if (std::ranges::any_of(member->addresses, same(address))) return;
  member->mapped_address = address;
  member->addresses.insert(std::ranges::find_if(member->addresses, net::IsRelayAddress), address);
}

void Members::KeepStatus(Member* member, std::string status, std::size_t most) {
  status_bytes_ -= member->status_json.size();
  member->status_json = std::string();
  if (!member->placed() && status_bytes_ + status.size() > most) return;
  member->status_json = std::move(status);
  status_bytes_ += member->status_json.size();
}

void Members::Remove(const PeerId& peer) {
  if (const Member* member = Find(peer)) status_bytes_ -= member->status_json.size();
  members_.erase(peer);
}

void Members::MoveToBack(const PeerId& peer) {
  if (Member* member = Find(peer)) member->joined = ++joined_;
}

void Members::SetPositions(const PlacementPlan& plan) {
  for (auto& [peer, member] : members_) member.pipeline = member.stage = -1;
  for (std::size_t p = 0; p < plan.size(); ++p) {
    for (std::size_t s = 0; s < plan[p].size(); ++s) {
      if (Member* member = Find(plan[p][s])) {
        member->pipeline = static_cast<std::int32_t>(p);
        member->stage = static_cast<std::int32_t>(s);
      }
    }
  }
}

std::vector<PlacementPeer> Members::Candidates() const {
  std::vector<PlacementPeer> peers;
  for (const auto& [peer, member] : members_) {
    if (!member.candidate()) continue;
    peers.push_back({peer, member.joined, member.memory_bytes});
  }
  return peers;
}

std::size_t Members::candidates() const {
  return static_cast<std::size_t>(
      std::count_if(members_.begin(), members_.end(),
                    [](const auto& entry) { return entry.second.candidate(); }));
}

std::size_t Members::connected() const {
  return static_cast<std::size_t>(std::count_if(
      members_.begin(), members_.end(), [](const auto& entry) { return entry.second.connected; }));
}

std::vector<const Member*> Members::Everybody() const {
  std::vector<const Member*> everybody;
  for (const auto& [peer, member] : members_) everybody.push_back(&member);
  return everybody;
}

std::vector<ConnectionId> Members::Silent(TimePoint now, const Timeouts& timeouts) const {
  std::vector<ConnectionId> silent;
  for (const auto& [id, connection] : connections_) {
    const Member* member = connection.admitted ? Find(connection.peer) : nullptr;
    if (member == nullptr) {
      if (now - connection.since > kHelloTimeout) silent.push_back(id);
    } else if (member->connection == id &&
               now - member->last_heard >
                   member->watch.Deadline(timeouts.silence_least, timeouts.peer_timeout)) {
      silent.push_back(id);
    }
  }
  return silent;
}

std::vector<PeerId> Members::ForgetAway(TimePoint now, Duration limit, std::size_t most) {
  std::vector<std::pair<TimePoint, PeerId>> away;  // the longest first
  for (const auto& [peer, member] : members_) {
    if (!member.connected && !member.placed()) away.emplace_back(member.last_heard, peer);
  }
  std::sort(away.begin(), away.end());
  std::vector<PeerId> forgotten;
  for (const auto& [heard, peer] : away) {
    if (now - heard <= limit && away.size() - forgotten.size() <= most) break;
    forgotten.push_back(peer);
    Remove(peer);
  }
  return forgotten;
}

}  // namespace shoal::scheduler
