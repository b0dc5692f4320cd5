#include "net/relay/punch_rules.h"

#include <algorithm>
#include <string>

#include "net/base/tcp_endpoint.h"

namespace shoal::net {
namespace {

enum class Reach { kNowhere, kMachine, kHome, kInternet };

bool IsV4(const TcpEndpoint& end) {
  return std::all_of(end.address.begin(), end.address.begin() + 10,
                     [](std::uint8_t byte) { return byte == 0; }) &&
         end.address[10] == 0xff && end.address[11] == 0xff;
}

// Of one machine: multicast, broadcast, reserved and unspecified addresses are nowhere.
Reach ReachOf(const TcpEndpoint& end) {
  const auto& a = end.address;
  if (IsV4(end)) {
    if (a[12] == 0 || a[12] >= 224) return Reach::kNowhere;
    if (a[12] == 127) return Reach::kMachine;
  } else {
    const bool zeros =
        std::all_of(a.begin(), a.end() - 1, [](std::uint8_t byte) { return byte == 0; });
    if (zeros && a[15] == 1) return Reach::kMachine;
    if (zeros || a[0] == 0xff) return Reach::kNowhere;
  }
  return IsPrivate(end) ? Reach::kHome : Reach::kInternet;
}

}  // namespace

bool PunchBudget::Take(TimePoint now) {
  if (counted_at_ != TimePoint{}) {
    const std::chrono::duration<double> passed = now - counted_at_;
    left_ = std::min<double>(kAtOnce, left_ + passed / kEvery);
  }
  counted_at_ = now;
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

Status CheckPunchTarget(std::string_view target, std::string_view relay) {
  const auto end = ParseTcpEndpoint(target);
  const auto from = ParseTcpEndpoint(relay);
  if (!end || !from) return InvalidArgument("the relay names no address and port");
  const std::string named = "the relay names " + std::string(target);
  if (end->port < kPunchPortMin) {
    return InvalidArgument(named + ", a port that no router gives a connection");
  }
  if (IsV4(*end) != IsV4(*from)) return InvalidArgument(named + ", an address of another kind");
  const Reach reach = ReachOf(*end);
  if (reach == Reach::kNowhere) return InvalidArgument(named + ", no machine's address");
  if (reach != Reach::kInternet && reach != ReachOf(*from)) {
    return InvalidArgument(named + ", which is not where it can see anybody");
  }
  return Status::Ok();
}

}  // namespace shoal::net
