#include "client/base/orders.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "client/base/programs.h"

namespace shoal::client {
namespace {

constexpr std::string_view kPeerVerbs[] = {"doctor", "finish",   "health", "join",  "leave",
                                           "logs",   "netcheck", "page",   "pause", "resume",
                                           "set",    "stats",    "status", "top"};
constexpr std::string_view kRunVerbs[] = {"audit",  "events",  "export", "invite",  "invites",
                                          "kick",   "members", "pause",  "release", "resume",
                                          "revoke", "start",   "status", "stop"};

bool InWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-'; }

template <std::size_t kVerbs>
std::string WithFolder(const std::string& text, std::string_view program,
                       const std::string_view (&verbs)[kVerbs], const std::string& directory) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(program, at)) != text.npos;) {
    std::size_t end = found + program.size();
    const bool begins = found == 0 || !(InWord(text[found - 1]) || text[found - 1] == '/');
    const std::size_t verb = end;
    while (end < text.size() && InWord(text[end])) ++end;
    const std::string_view word = std::string_view(text).substr(verb, end - verb);
    const std::size_t last = std::min(text.find_first_of("`\n;", end), text.size());
    const bool named =
        std::string_view(text).substr(end, last - end).find("--dir") != std::string_view::npos;
    out.append(text, at, end - at);
    at = end;
    if (begins && !named && std::ranges::find(verbs, word) != std::end(verbs)) {
      out += " --dir " + ShellWord(directory);
    }
  }
  return out.append(text, at);
}

}  // namespace

std::string ShellWord(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](char c) {
    return InWord(c) || std::string_view("/._~+:@%").find(c) != std::string_view::npos;
  });
  if (plain && !text.empty()) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string PeerOrders(const std::string& text, const std::string& directory) {
  if (directory == DefaultDirectory()) return text;
  return WithFolder(text, "shoal ", kPeerVerbs, directory);
}

std::string RunOrders(const std::string& text, const std::string& directory) {
  return WithFolder(text, "shoal swarm ", kRunVerbs, directory);
}

}  // namespace shoal::client
