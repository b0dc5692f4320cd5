#include "net/relay/relay_message.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "common/bytes.h"
#include "common/text.h"

namespace shoal::net {
namespace {

constexpr std::string_view kHostSuffix = ".shoal:1";
constexpr std::string_view kTicketHeader = "Shoal-Ticket:";
constexpr std::string_view kConnect = "CONNECT ";

enum class Type : unsigned char {
  kRegister = 1,
  kChallenge = 2,
  kProof = 3,
  kRegistered = 4,
  kIncoming = 5,
  kJoin = 6,
  kJoined = 7,
  kRefused = 8,
  kPing = 9,
  kPong = 10,
  kDialBack = 11,
  kDialled = 12,
  kPunch = 13,
  kPunching = 14,
  kPunchJoin = 15,
  kPunchTarget = 16,
};

template <std::size_t kSize, typename Byte>
std::string Text(const std::array<Byte, kSize>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), kSize};
}

std::string Cut(const std::string& text) { return text.substr(0, kRelayTextMax); }

std::pair<Type, std::string> BodyOf(const RelayRegister& m) {
  return {Type::kRegister, Text(m.key.key)};
}
std::pair<Type, std::string> BodyOf(const RelayChallenge& m) {
  return {Type::kChallenge, Text(m.bytes)};
}
std::pair<Type, std::string> BodyOf(const RelayProof& m) {
  return {Type::kProof, Text(m.code) + Text(m.signature)};
}
std::pair<Type, std::string> BodyOf(const RelayRegistered& m) {
  return {Type::kRegistered, Cut(m.seen_address)};
}
std::pair<Type, std::string> BodyOf(const RelayIncoming& m) {
  return {Type::kIncoming, Text(m.session) + Cut(m.caller)};
}
std::pair<Type, std::string> BodyOf(const RelayJoin& m) { return {Type::kJoin, Text(m.session)}; }
std::pair<Type, std::string> BodyOf(const RelayJoined&) { return {Type::kJoined, ""}; }
std::pair<Type, std::string> BodyOf(const RelayRefused& m) {
  return {Type::kRefused, std::string(1, static_cast<char>(m.code)) + Cut(m.error)};
}
std::pair<Type, std::string> BodyOf(const RelayPing&) { return {Type::kPing, ""}; }
std::pair<Type, std::string> BodyOf(const RelayPong&) { return {Type::kPong, ""}; }
std::pair<Type, std::string> BodyOf(const RelayDialBack& m) {
  std::array<std::byte, 2> port;
  StoreLittle(port.data(), m.port);
  return {Type::kDialBack, Text(port)};
}
std::pair<Type, std::string> BodyOf(const RelayDialled& m) {
  return {Type::kDialled, std::string(1, m.reached ? '\1' : '\0')};
}
std::pair<Type, std::string> BodyOf(const RelayPunch& m) {
  return {Type::kPunch, Text(m.other.key)};
}
std::pair<Type, std::string> BodyOf(const RelayPunching& m) {
  return {Type::kPunching,
          Text(m.session) + std::string(1, m.asked ? '\1' : '\0') + Text(m.other.key)};
}
std::pair<Type, std::string> BodyOf(const RelayPunchJoin& m) {
  return {Type::kPunchJoin, Text(m.session)};
}
std::pair<Type, std::string> BodyOf(const RelayPunchTarget& m) {
  return {Type::kPunchTarget, Cut(m.address)};
}

// Takes fields off the front of a body; failed() where one is too short.
class Fields {
 public:
  explicit Fields(std::string_view body) : rest_(body) {}
  template <std::size_t kSize, typename Byte>
  Fields& Read(std::array<Byte, kSize>* to) {
    failed_ = failed_ || rest_.size() < kSize;
    if (failed_) return *this;
    std::memcpy(to->data(), rest_.data(), kSize);
    rest_.remove_prefix(kSize);
    return *this;
  }
  // What is left: printable, and not too long.
  Fields& ReadText(std::string* to) {
    failed_ = failed_ || rest_.size() > kRelayTextMax;
    if (failed_) return *this;
    *to = CleanText(rest_, kRelayTextMax);
    rest_ = {};
    return *this;
  }
  bool failed() const { return failed_ || !rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

template <typename Message>
std::optional<RelayMessage> Made(const Fields& fields, Message message) {
  if (fields.failed()) return std::nullopt;
  return RelayMessage(std::move(message));
}

std::optional<RelayMessage> ParsePunch(Type type, Fields fields) {
  switch (type) {
    case Type::kPunch: {
      RelayPunch m;
      fields.Read(&m.other.key);
      return Made(fields, m);
    }
    case Type::kPunching: {
      RelayPunching m;
      std::array<unsigned char, 1> asked{};
      fields.Read(&m.session).Read(&asked).Read(&m.other.key);
      m.asked = asked[0] == 1;
      return Made(fields, m);
    }
    case Type::kPunchJoin: {
      RelayPunchJoin m;
      fields.Read(&m.session);
      return Made(fields, m);
    }
    case Type::kPunchTarget: {
      RelayPunchTarget m;
      fields.ReadText(&m.address);
      return Made(fields, std::move(m));
    }
    default: return std::nullopt;
  }
}

std::optional<RelayMessage> Parse(Type type, std::string_view body) {
  Fields fields(body);
  const auto made = [&fields](auto message) { return Made(fields, std::move(message)); };
  switch (type) {
    case Type::kRegister: {
      RelayRegister m;
      fields.Read(&m.key.key);
      return made(m);
    }
    case Type::kChallenge: {
      RelayChallenge m;
      fields.Read(&m.bytes);
      return made(m);
    }
    case Type::kProof: {
      RelayProof m;
      fields.Read(&m.code).Read(&m.signature);
      return made(m);
    }
    case Type::kRegistered: {
      RelayRegistered m;
      fields.ReadText(&m.seen_address);
      return made(std::move(m));
    }
    case Type::kIncoming: {
      RelayIncoming m;
      fields.Read(&m.session).ReadText(&m.caller);
      return made(std::move(m));
    }
    case Type::kJoin: {
      RelayJoin m;
      fields.Read(&m.session);
      return made(m);
    }
    case Type::kJoined: return made(RelayJoined{});
    case Type::kRefused: {
      RelayRefused m;
      std::array<unsigned char, 1> code{};
      fields.Read(&code).ReadText(&m.error);
      m.code =
          code[0] > 0 && code[0] <= 16 ? static_cast<StatusCode>(code[0]) : StatusCode::kUnknown;
      return made(std::move(m));
    }
    case Type::kPing: return made(RelayPing{});
    case Type::kPong: return made(RelayPong{});
    case Type::kDialBack: {
      std::array<std::byte, 2> port{};
      fields.Read(&port);
      return made(RelayDialBack{LoadLittle<std::uint16_t>(port.data())});
    }
    case Type::kDialled: {
      std::array<unsigned char, 1> reached{};
      fields.Read(&reached);
      return made(RelayDialled{reached[0] == 1});
    }
    default: return ParsePunch(type, fields);
  }
}

Status NotACall() {
  return InvalidArgument("this is a relay of shoal; it answers CONNECT <key>.shoal:1 only");
}

// Trimmed of blanks and the carriage return.
std::string_view Trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool StartsWithAnyCase(std::string_view text, std::string_view start) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(),
                    [&lower](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace

std::string EncodeRelayMessage(const RelayMessage& message) {
  const auto [type, body] = std::visit([](const auto& m) { return BodyOf(m); }, message);
  std::array<std::byte, 2> size;
  StoreLittle(size.data(), static_cast<std::uint16_t>(body.size()));
  std::string bytes(1, static_cast<char>(type));
  bytes.append(reinterpret_cast<const char*>(size.data()), size.size());
  return bytes + body;
}

Result<std::optional<RelayTaken>> TakeRelayMessage(std::string_view bytes) {
  if (bytes.size() < kRelayHeaderBytes) return std::optional<RelayTaken>();
  const std::size_t size =
      LoadLittle<std::uint16_t>(reinterpret_cast<const std::byte*>(bytes.data() + 1));
  if (kRelayHeaderBytes + size > kRelayMessageBytesMax) {
    return DataLoss("a relay's message is too long");
  }
  if (bytes.size() < kRelayHeaderBytes + size) return std::optional<RelayTaken>();
  auto message = Parse(static_cast<Type>(bytes[0]), bytes.substr(kRelayHeaderBytes, size));
  if (!message) return DataLoss("a relay's message is damaged, or of another version");
  return std::optional<RelayTaken>(RelayTaken{*std::move(message), kRelayHeaderBytes + size});
}

Result<RelayCall> ParseRelayCall(std::string_view head) {
  if (head.size() > kRelayCallBytesMax || !head.starts_with(kConnect)) return NotACall();
  head.remove_prefix(kConnect.size());
  const std::string_view target = head.substr(0, head.find(' '));
  if (!target.ends_with(kHostSuffix)) return NotACall();
  RelayCall call;
  const auto key = PeerId::FromHex(target.substr(0, target.size() - kHostSuffix.size()));
  if (!key.ok()) return NotACall();
  call.target = *key;
  for (std::size_t at = head.find('\n'); at != std::string_view::npos; at = head.find('\n')) {
    head.remove_prefix(at + 1);
    const std::string_view line = head.substr(0, head.find('\n'));
    if (StartsWithAnyCase(line, kTicketHeader)) {
      call.ticket = Trim(line.substr(kTicketHeader.size()));
      if (call.ticket.size() > kRelayTicketBytesMax) return NotACall();
    }
  }
  return call;
}

std::string RelayCallTarget(const PeerId& target) {
  return target.ToHex() + std::string(kHostSuffix);
}

std::string RelayCallHeader(const std::string& ticket) {
  return std::string(kTicketHeader) + " " + ticket;
}

std::string RelayCallAnswer(const Status& status) {
  const auto answer = [](std::string_view line) {
    return "HTTP/1.0 " + std::string(line) + "\r\n\r\n";
  };
  switch (status.code()) {
    case StatusCode::kOk: return answer("200 connected");
    case StatusCode::kInvalidArgument: return answer("400 not a call of shoal");
    case StatusCode::kUnauthenticated: return answer("403 wrong secret or clock");
    case StatusCode::kNotFound: return answer("404 peer is not here");
    case StatusCode::kResourceExhausted: return answer("429 too many connections");
    case StatusCode::kDeadlineExceeded: return answer("504 peer does not answer");
    default: return answer("503 not now");
  }
}

}  // namespace shoal::net
