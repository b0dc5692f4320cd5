#include "net/relay/relay_visitor-inl.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

namespace shoal::net {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr std::string_view kCall = "CONNECT ";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::size_t kInBytesMax = 4096;     // that came and were not looked at
constexpr std::size_t kOutMessagesMax = 256;  // to a peer that does not read

}  // namespace

RelayVisitor::RelayVisitor(Socket socket, std::string address, Owner* owner)
    : socket_(std::move(socket)),
      address_(std::move(address)),
      owner_(owner),
      timer_(socket_.get_executor()) {}

void RelayVisitor::Start() {
  Watch(kPatience);
  Read();
}

void RelayVisitor::Watch(std::chrono::seconds patience) {
  timer_.expires_after(patience);
  timer_.async_wait([weak = weak_from_this()](Error error) {
    const auto self = weak.lock();
    if (!error && self) self->Close();
  });
}

void RelayVisitor::Settle() {
  settled_ = true;
  Watch(kPeerSilence);
}

void RelayVisitor::Read() {
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](Error error, std::size_t bytes) {
                            if (self->taken_) return;
                            if (error) return self->Close();
                            self->in_.append(self->chunk_.data(), bytes);
                            self->Look();
                          });
}

void RelayVisitor::Look() {
  if (role_ == Role::kFresh) {
    const auto begins = [this](std::string_view word) {
      const std::size_t size = std::min(word.size(), in_.size());
      return in_.compare(0, size, word, 0, size) == 0;
    };
    const bool now = begins(kRelayPreface), before = begins(kRelayPrefaceWithoutPunches);
    if (in_.size() >= kRelayPreface.size() && (now || before)) {
      role_ = Role::kPeer;
      punches_ = now;
      in_.erase(0, kRelayPreface.size());
    } else if (in_.size() >= kCall.size() && begins(kCall)) {
      role_ = Role::kCaller;
    } else if (!now && !before && !begins(kCall)) {
      return RefuseCall(InvalidArgument("not a call"));
    }
  }
  if (role_ == Role::kCaller && !LookAtCall()) return;
  while (role_ == Role::kPeer && LookAtMessage()) {
  }
  if (taken_ || ending_) return;
  if (in_.size() >= kInBytesMax) return Close();
  Read();
}

bool RelayVisitor::LookAtCall() {
  const std::size_t end = in_.find(kHeadEnd);
  if (end == std::string::npos) {
    if (in_.size() < kRelayCallBytesMax) return true;
    RefuseCall(InvalidArgument("the head of a call is too long"));
    return false;
  }
  const std::string head = in_.substr(0, end + kHeadEnd.size());
  in_.erase(0, head.size());
  const auto call = ParseRelayCall(head);
  if (!call.ok()) {
    RefuseCall(call.status());
  } else {
    owner_->OnCall(shared_from_this(), *call);
  }
  return false;  // a caller is not read further until it is spliced
}

bool RelayVisitor::LookAtMessage() {
  if (taken_ || ending_) return false;
  auto taken = TakeRelayMessage(in_);
  if (!taken.ok()) {
    Refuse(taken.status());
    return false;
  }
  if (!*taken) return false;
  in_.erase(0, (*taken)->bytes);
  if (settled_) Watch(kPeerSilence);
  Handle((*taken)->message);
  return true;
}

void RelayVisitor::Handle(const RelayMessage& message) {
  const auto self = shared_from_this();
  if (const auto* wanted = std::get_if<RelayRegister>(&message); wanted != nullptr && !settled_) {
    owner_->OnRegister(self, wanted->key);
  } else if (const auto* proof = std::get_if<RelayProof>(&message); proof != nullptr && !settled_) {
    owner_->OnProof(self, *proof);
  } else if (const auto* join = std::get_if<RelayJoin>(&message); join != nullptr && !settled_) {
    owner_->OnJoin(self, *join);
  } else if (std::holds_alternative<RelayPing>(message) && settled_) {
    Send(RelayPong{});
  } else if (const auto* back = std::get_if<RelayDialBack>(&message); back != nullptr && settled_) {
    owner_->OnDialBack(self, back->port);
  } else if (HandlePunch(message)) {
  } else if (!std::holds_alternative<RelayPong>(message)) {
    Refuse(InvalidArgument("this message does not belong here"));
  }
}

bool RelayVisitor::HandlePunch(const RelayMessage& message) {
  if (!punches_) return false;
  const auto self = shared_from_this();
  if (const auto* punch = std::get_if<RelayPunch>(&message); punch != nullptr && settled_) {
    owner_->OnPunch(self, punch->other);
    return true;
  }
  if (const auto* join = std::get_if<RelayPunchJoin>(&message); join != nullptr && !settled_) {
    owner_->OnPunchJoin(self, join->session);
    return true;
  }
  return false;
}

void RelayVisitor::Send(const RelayMessage& message) { Write(EncodeRelayMessage(message)); }

void RelayVisitor::RefuseCall(const Status& status) {
  Write(RelayCallAnswer(status));
  ending_ = true;
  Watch(kPatience);
}

void RelayVisitor::Refuse(const Status& status) {
  Send(RelayRefused{status.code(), status.message()});
  ending_ = true;
  Watch(kPatience);
}

void RelayVisitor::Write(std::string bytes) {
  if (taken_ || ending_) return;
  if (out_.size() >= kOutMessagesMax) return Close();
  out_.push_back(std::move(bytes));
  if (out_.size() == 1) WriteNext();
}

void RelayVisitor::WriteNext() {
  asio::async_write(socket_, asio::buffer(out_.front()),
                    [self = shared_from_this()](Error error, std::size_t) {
                      if (self->taken_) return;
                      if (error) return self->Close();
                      self->out_.pop_front();
                      if (!self->out_.empty()) return self->WriteNext();
                      if (self->ending_) self->Close();
                    });
}

void RelayVisitor::Close() {
  if (std::exchange(taken_, true)) return;
  timer_.cancel();
  Error ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);  // what was written arrives
  socket_.close(ignored);
  owner_->OnGone(this);
}

std::pair<RelayVisitor::Socket, std::string> RelayVisitor::TakeOver() {
  taken_ = true;
  timer_.cancel();
  return {std::move(socket_), std::move(in_)};
}

}  // namespace shoal::net
