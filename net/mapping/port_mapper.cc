#include "net/mapping/port_mapper.h"

#include <arpa/inet.h>
#include <miniupnpc/miniupnpc.h>
#include <miniupnpc/upnpcommands.h>
#include <miniupnpc/upnperrors.h>
#include <natpmp.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/clock.h"
#include "common/executor.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/status.h"
#include "net/base/host_port.h"
#include "net/base/tcp_endpoint.h"

namespace shoal::net {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTakeBackPatience{300};
constexpr char kName[] = "shoal";  // what the router shows
constexpr const char* kNatPmp = "NAT-PMP";
constexpr const char* kUpnp = "UPnP";

// The first of that type: a slow router may answer what was asked before a second time.
Result<natpmpresp_t> ReadAnswer(natpmp_t* natpmp, int type, milliseconds patience) {
  const TimePoint until = SystemClock().Now() + patience;
  for (;;) {
    natpmpresp_t answer{};
    const int code = readnatpmpresponseorretry(natpmp, &answer);
    if (code >= 0 && answer.type == type) return answer;
    if (code >= 0) continue;
    if (code == NATPMP_ERR_NOGATEWAYSUPPORT) {
      return Unavailable("the router does not speak NAT-PMP");
    }
    if (code != NATPMP_TRYAGAIN) return Unavailable("the router refuses by NAT-PMP");
    const TimePoint now = SystemClock().Now();
    if (now >= until) return DeadlineExceeded("no router answers by NAT-PMP");
    timeval wait{};
    if (getnatpmprequesttimeout(natpmp, &wait) != 0) wait = {0, 100'000};
    const auto library =
        std::chrono::seconds(wait.tv_sec) + std::chrono::microseconds(wait.tv_usec);
    const auto most = std::chrono::duration_cast<milliseconds>(until - now) + milliseconds(1);
    const auto ms =
        std::clamp(std::chrono::duration_cast<milliseconds>(library), milliseconds(1), most);
    pollfd polled{natpmp->s, POLLIN, 0};
    (void)::poll(&polled, 1, static_cast<int>(ms.count()));
  }
}

struct NatPmp {
  natpmp_t state{};
  bool open = false;
  NatPmp() { open = initnatpmp(&state, 0, 0) == 0; }
  ~NatPmp() {
    if (state.s > 0) closenatpmp(&state);  // also where it could not be opened whole
  }
  NatPmp(const NatPmp&) = delete;
  NatPmp& operator=(const NatPmp&) = delete;
};

Result<HostPort> AskNatPmp(std::uint16_t port, const std::atomic<bool>&) {
  NatPmp natpmp;
  if (!natpmp.open) return Unavailable("there is no gateway");
  if (sendpublicaddressrequest(&natpmp.state) < 0) return Unavailable("there is no gateway");
  SHOAL_ASSIGN_OR_RETURN(
      const natpmpresp_t address,
      ReadAnswer(&natpmp.state, NATPMP_RESPTYPE_PUBLICADDRESS, PortMapper::kPatience));
  if (sendnewportmappingrequest(&natpmp.state, NATPMP_PROTOCOL_TCP, port, port,
                                static_cast<std::uint32_t>(PortMapper::kLease.count())) < 0) {
    return Unavailable("the router does not take a request by NAT-PMP");
  }
  SHOAL_ASSIGN_OR_RETURN(
      const natpmpresp_t mapped,
      ReadAnswer(&natpmp.state, NATPMP_RESPTYPE_TCPPORTMAPPING, PortMapper::kPatience));
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &address.pnu.publicaddress.addr, text, sizeof(text));
  return HostPort{text, mapped.pnu.newportmapping.mappedpublicport};
}

void TakeBackNatPmp(std::uint16_t port) {
  NatPmp natpmp;
  if (!natpmp.open) return;
  if (sendnewportmappingrequest(&natpmp.state, NATPMP_PROTOCOL_TCP, port, 0, 0) < 0) return;
  (void)ReadAnswer(&natpmp.state, NATPMP_RESPTYPE_TCPPORTMAPPING, kTakeBackPatience);
}

// What a router may be found as, the likeliest first.
constexpr const char* kGatewayTypes[] = {"urn:schemas-upnp-org:device:InternetGatewayDevice:2",
                                         "urn:schemas-upnp-org:device:InternetGatewayDevice:1",
                                         "urn:schemas-upnp-org:service:WANIPConnection:2",
                                         "urn:schemas-upnp-org:service:WANIPConnection:1",
                                         "urn:schemas-upnp-org:service:WANPPPConnection:1",
                                         "upnp:rootdevice"};

// One type at a time, so that who ends waits for one of them at most. Null: nobody answers.
UPNPDev* FindDevices(const std::atomic<bool>& stopped) {
  for (const char* const type : kGatewayTypes) {
    if (stopped) return nullptr;
    const char* const types[] = {type, nullptr};
    int error = 0;
    UPNPDev* const devices =
        upnpDiscoverDevices(types, static_cast<int>(PortMapper::kPatience.count()), nullptr,
                            nullptr, UPNP_LOCAL_PORT_ANY, 0, 2, &error, 0);
    if (devices != nullptr) return devices;
  }
  return nullptr;
}

// The home's internet gateway device.
struct Gateway {
  UPNPUrls urls{};
  IGDdatas data{};
  char own_address[64] = "";
  int found = 0;

  explicit Gateway(const std::atomic<bool>& stopped) {
    UPNPDev* const devices = FindDevices(stopped);
    if (devices == nullptr) return;
    found = UPNP_GetValidIGD(devices, &urls, &data, own_address, sizeof(own_address));
    freeUPNPDevlist(devices);
  }
  ~Gateway() {
    if (found != 0) FreeUPNPUrls(&urls);
  }
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;
};

Result<HostPort> AskUpnp(std::uint16_t port, const std::atomic<bool>& stopped) {
  Gateway gateway(stopped);
  if (gateway.found != 1) return Unavailable("no router answers by UPnP");
  char address[64] = "";
  if (UPNP_GetExternalIPAddress(gateway.urls.controlURL, gateway.data.first.servicetype, address) !=
      UPNPCOMMAND_SUCCESS) {
    return Unavailable("the router does not tell its address by UPnP");
  }
  const std::string text = std::to_string(port), lease = std::to_string(PortMapper::kLease.count());
  const int code =
      UPNP_AddPortMapping(gateway.urls.controlURL, gateway.data.first.servicetype, text.c_str(),
                          text.c_str(), gateway.own_address, kName, "TCP", nullptr, lease.c_str());
  if (code != UPNPCOMMAND_SUCCESS) {
    const char* const why = strupnperror(code);
    return Unavailable(std::string("the router refuses by UPnP: ") +
                       (why != nullptr ? why : "no reason"));
  }
  return HostPort{address, port};
}

// One that gave a port is there.
void TakeBackUpnp(std::uint16_t port) {
  const std::atomic<bool> stopped = false;
  Gateway gateway(stopped);
  if (gateway.found == 0) return;
  (void)UPNP_DeletePortMapping(gateway.urls.controlURL, gateway.data.first.servicetype,
                               std::to_string(port).c_str(), "TCP", nullptr);
}

// A router whose own address is a private one stands behind another.
Status CheckOutside(const HostPort& outside) {
  const auto endpoint = ParseTcpEndpoint(FormatHostPort(outside));
  if (!endpoint || outside.port == 0) return Unavailable("the router tells no address");
  if (IsPrivate(*endpoint)) {
    return Unavailable("the router's own address, " + outside.host + ", is not a public one");
  }
  return Status::Ok();
}

class ThreadedPortMapper final : public PortMapper {
 public:
  explicit ThreadedPortMapper(std::uint16_t port) : port_(port) {
    thread_->Post("mapper.ask", [this] { AskAndAgain(); });
  }
  ~ThreadedPortMapper() override {
    stopped_ = true;
    executor_.reset();  // waits for what it asks now
    const PortMapping kept = mapping();
    if (kept.how == kNatPmp) TakeBackNatPmp(port_);
    if (kept.how == kUpnp) TakeBackUpnp(port_);
  }
  PortMapping mapping() const override {
    MutexLock lock(mutex_);
    return mapping_;
  }
  void NetworkChanged() override {
    thread_->Post("mapper.changed", [this] {
      const Duration since = SystemClock().Now() - asked_at_;
      AskAfter(std::max<Duration>(kAskChanged - since, Duration::zero()));
    });
  }

 private:
  PortMapping Ask() const {
    std::string trouble;
    for (const auto& [how, ask] : {std::pair{kNatPmp, &AskNatPmp}, std::pair{kUpnp, &AskUpnp}}) {
      const auto outside = ask(port_, stopped_);
      const Status status = outside.ok() ? CheckOutside(*outside) : outside.status();
      if (status.ok()) return {FormatHostPort(*outside), how, ""};
      if (outside.ok()) how == kNatPmp ? TakeBackNatPmp(port_) : TakeBackUpnp(port_);
      trouble += (trouble.empty() ? "" : "; ") + status.message();
      if (stopped_) break;
    }
    return {"", "", trouble};
  }

  // In place of when it was to be before.
  void AskAfter(Duration wait) {
    thread_->PostAfter("mapper.ask", wait, [this, number = ++turn_] {
      if (turn_ == number) AskAndAgain();
    });
  }

  void AskAndAgain() {
    PortMapping asked = Ask();
    SHOAL_LOG(kInfo, "net", "port.mapping", {"address", asked.address}, {"how", asked.how},
              {"trouble", asked.trouble});
    const Duration wait = asked.address.empty() ? Duration(kAskAgain) : Duration(kRenewAfter);
    {
      MutexLock lock(mutex_);
      mapping_ = std::move(asked);
    }
    asked_at_ = SystemClock().Now();
    AskAfter(wait);
  }

  const std::uint16_t port_;
  std::atomic<bool> stopped_ = false;
  std::uint64_t turn_ = 0;  // of those that are posted, the one that counts; the thread's
  TimePoint asked_at_{};    // the thread's
  mutable Mutex mutex_;
  PortMapping mapping_ SHOAL_GUARDED_BY(mutex_);
  std::unique_ptr<Executor> executor_ = NewThreadExecutor("mapper");
  Executor* const thread_ = executor_.get();  // also for its last task, while it is destroyed
};

}  // namespace

std::unique_ptr<PortMapper> NewPortMapper(std::uint16_t port) {
  return std::make_unique<ThreadedPortMapper>(port);
}

}  // namespace shoal::net
