// SchedulerConnection: keeps the control stream to the scheduler open: dials, says hello, dials
// again with growing pauses after a break.

#ifndef SHOAL_DAEMON_SCHEDULER_CONNECTION_H_
#define SHOAL_DAEMON_SCHEDULER_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/status.h"
#include "net/control/control.h"
#include "net/identity/identity.h"

namespace shoal::daemon {

// How the connection stands, for people.
struct SchedulerReport {
  bool connected = false;
  std::vector<std::string> addresses;  // of the invite; empty: there is none
  std::string trouble;                 // why the last attempt failed; empty: none did
  double rtt_ms = 0;                   // from the last hello to its welcome; 0: not connected
  double up_bps = 0, down_bps = 0;     // of the last file of five megabytes or more; 0: none yet
};

// How long a peer waits before it tries again, after so many attempts that failed in a row before:
// 0.5 s at first, 15 s in the end, a quarter more or less by its key, so that peers of a scheduler
// that is back do not all come at once. Pure.
Duration RetryAfter(std::uint32_t failures, const PeerId& peer);

// Dials the scheduler: net::NewControlClient, but for executor and caps.
using NewClient = std::function<std::unique_ptr<net::ControlClient>(
    const net::ControlClientOptions& options, net::ControlClientHandlers handlers)>;

// Thread: control.
class SchedulerConnection {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual control::v1::PeerMessage MakeHello() = 0;
    // Whether a hello made now would say all that there is to say; one waits some seconds for that.
    virtual bool ReadyForHello() const { return true; }
    virtual void OnWelcome(const control::v1::Welcome& welcome) = 0;
    // Everything after the welcome.
    virtual void OnSchedulerMessage(const control::v1::SchedulerMessage& message) = 0;
    // The stream ended; another attempt follows in `retry_in`.
    virtual void OnConnectionLost(const Status& status, Duration retry_in) = 0;
    // The scheduler does not want this peer; no further attempt.
    virtual void OnRefused(const Status& status) = 0;
  };

  SchedulerConnection(Executor* control, std::shared_ptr<const net::Identity> identity,
                      NewClient new_client, Owner* owner);
  ~SchedulerConnection();

  // Dials; an earlier stream is closed.
  void Open(const net::Invite& invite);
  void Close();
  // Dials at once where it waits for its next attempt: the machine woke, or its network changed.
  void RetryNow();
  // Gives a stream up that cannot stand any more, and dials at once.
  void Drop(const Status& why);
  bool waits() const {
    SHOAL_ASSERT_ON(*control_);
    return invite_ && !client_;
  }
  // Drops messages while there is no stream: the scheduler asks again after a new hello.
  void Tell(control::v1::PeerMessage message);
  net::ControlClient* client() {
    SHOAL_ASSERT_ON(*control_);
    return welcomed_ ? client_.get() : nullptr;
  }
  net::ControlStats stats() const;  // over all streams so far
  SchedulerReport report() const;

 private:
  void DialOnceReady(std::uint64_t attempt, TimePoint until);
  void Dial();
  void OnMessage(const control::v1::SchedulerMessage& message);
  void OnClosed(const Status& status);
  void Refused(const Status& status);
  void DropClient();

  Executor* const control_;
  const std::shared_ptr<const net::Identity> identity_;
  const NewClient new_client_;
  Owner* const owner_;
  std::optional<net::Invite> invite_;
  std::unique_ptr<net::ControlClient> client_;
  std::shared_ptr<std::uint64_t> attempt_;  // number of the live attempt; callbacks compare
  bool greeted_ = false;                    // the hello is on its way
  bool welcomed_ = false;
  TimePoint greeted_at_{};
  double rtt_ms_ = 0;
  std::uint32_t failures_ = 0;  // in a row
  std::string served_by_;       // address that welcomed us last
  std::uint32_t key_refusals_ = 0;
  std::string trouble_;
  net::ControlStats past_;  // of closed streams
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_SCHEDULER_CONNECTION_H_
