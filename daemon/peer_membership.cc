// Which run this peer belongs to, and within which caps: invites and what was set at run time.

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "daemon/peer_node.h"
#include "net/relay/relay_address.h"

namespace shoal::daemon {
namespace {

constexpr std::uint64_t kInviteBytesMax = 64 * 1024;
// A scheduler that says more is believed so much.
constexpr std::uint64_t kQuarantineMsMax = std::uint64_t{7} * 24 * 3600 * 1000;

// As the argument of `shoal join`: the invite itself or the file that holds it.
Result<net::Invite> ReadInvite(const std::string& text) {
  if (text.rfind("file:", 0) != 0) return net::ParseInvite(text);
  SHOAL_ASSIGN_OR_RETURN(const std::string content, ReadFile(text.substr(5), kInviteBytesMax));
  return net::ParseInvite(content);
}

std::string InviteFile(const DaemonConfig& config) { return config.directory + "/invite"; }

// Settings given to a running shoald that it can only take at its start, as flags; "" if all are
// as they are already.
std::string KeptSettings(const DaemonConfig& config,
                         const std::map<std::string, std::string>& arguments) {
  const std::pair<const char*, std::string> running[] = {{"name", config.name},
                                                         {"device", config.device},
                                                         {"listen", config.listen},
                                                         {"status-listen", config.status_listen},
                                                         {"config", ""}};
  std::string kept;
  for (const auto& [key, value] : running) {
    const auto given = arguments.find(key);
    if (given == arguments.end() || given->second == value) continue;
    kept +=
        (kept.empty() ? "" : ", ") + ("--" + std::string(key)) + (value.empty() ? "" : " " + value);
  }
  return kept;
}

}  // namespace

// The most recent will counts: a flag or the settings, then what `shoal join` told this or an
// earlier shoald. Last comes the file that `shoal join` wrote before it started one.
void PeerNode::Begin() {
  SHOAL_ASSERT_ON(*control_);
  if (overlay_.paused_until_ms > 0 && overlay_.paused_until_ms <= terms_->now_ms()) {
    overlay_.paused = false;
    overlay_.paused_until_ms = 0;
  }
  paused_ = overlay_.paused;
  terms_->Begin(gpu_->first_user());
  std::string invite = !config_.invite.empty() ? config_.invite : overlay_.invite.value_or("");
  std::error_code error;
  if (invite.empty() && std::filesystem::exists(InviteFile(config_), error)) {
    invite = "file:" + InviteFile(config_);
  }
  if (invite.empty()) {
    ChangeState(PeerState::kIdle, "no invite yet: run `shoal join INVITE`");
    return;
  }
  if (Status status = OpenConnection(invite); !status.ok()) {
    control_->Post("daemon.bad_invite", [this, status] { on_stop_(status); });
    return;
  }
  // Remembered, so that shoald alone rejoins after a reboot.
  overlay_.invite = invite_text_;
  (void)KeepSettings();  // a full disk, which it logs, is no reason not to begin
}

Status PeerNode::OpenConnection(const std::string& invite) {
  SHOAL_ASSIGN_OR_RETURN(invite_, ReadInvite(invite));
  invite_text_ = net::FormatInvite(invite_);
  hub_->UseRelays(invite_.addresses);
  ChangeState(PeerState::kJoining, "connecting to " + net::ShownAddress(invite_.addresses.front()));
  connection_->Open(invite_);
  return Status::Ok();
}

void PeerNode::ForgetInvite() {
  hub_->UseRelays({});
  overlay_.invite.reset();
  (void)std::remove(InviteFile(config_).c_str());
}

Result<net::CommandResult> PeerNode::Join(const std::map<std::string, std::string>& arguments) {
  SHOAL_ASSERT_ON(*control_);
  const auto found = arguments.find("invite");
  if (found == arguments.end()) return InvalidArgument("join needs an invite");
  SHOAL_ASSIGN_OR_RETURN(const net::Invite invite, ReadInvite(found->second));
  const bool member = state_ != PeerState::kIdle && state_ != PeerState::kJoining;
  if (member && invite.scheduler != invite_.scheduler) {
    return FailedPrecondition("already a member of run \"" + run_name_ +
                              "\"; for a further run give another folder with --dir, or leave "
                              "this one for good with `shoal leave`");
  }
  std::map<std::string, std::string> caps = arguments;
  std::erase_if(
      caps, [](const auto& given) { return given.first != "upload" && given.first != "download"; });
  SHOAL_ASSIGN_OR_RETURN(SettingsOverlay next, WithSettings(overlay_, caps, terms_->now_ms()));
  std::string text = "already a member of run \"" + run_name_ + "\"";
  if (!member) {
    SHOAL_RETURN_IF_ERROR(OpenConnection(found->second));
    next.invite = invite_text_;
    next.paused = paused_ = false;
    next.paused_until_ms = 0;
    text = "joining the swarm at " + net::ShownAddress(invite_.addresses.front()) +
           "; `shoal status` shows how it goes";
  }
  overlay_ = next;
  const std::string unsaved = KeepSettings();
  terms_->Decide();
  if (arguments.contains("upload") || arguments.contains("download")) text += "; " + CapsText();
  if (const std::string kept = KeptSettings(config_, arguments); !kept.empty()) {
    text += "; the shoald that runs here already keeps " + kept +
            ": to change that, stop it (Ctrl-C where it runs) and join again";
  }
  if (ruled_) text += "; " + terms_->allowed().pause_text;
  if (paused_) text += "; it is paused by its user: `shoal resume` ends that";
  return net::CommandResult{text + unsaved, ""};
}

std::string PeerNode::CapsText() const {
  return "upload " + FormatRate(hub_->upload_cap()) + ", download " +
         FormatRate(hub_->download_cap());
}

Result<net::CommandResult> PeerNode::Set(const std::map<std::string, std::string>& arguments) {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_ASSIGN_OR_RETURN(const SettingsOverlay next,
                         WithSettings(overlay_, arguments, terms_->now_ms()));
  if (arguments.contains("device_memory")) {
    const TermSettings terms = TermsInForce(config_, next, terms_->now_ms());
    SHOAL_RETURN_IF_ERROR(memory_->Check(terms.device_memory_bytes));
  }
  const Status saved = WriteOverlay(config_.directory + "/overlay.json", next);
  if (!saved.ok()) {
    return saved.WithContext("nothing was changed (" + CapsText() +
                             "), as what is set must be saved; free space and set it again");
  }
  overlay_ = next;
  terms_->Decide();
  if (arguments.contains("gpu_power")) gpu_->LimitPower(terms_->allowed().gpu_watts);
  std::string text = CapsText();
  for (const auto& [key, value] : arguments) {
    const bool shown = key == "upload" || key == "download" || key == "for";
    if (!shown) text += "; " + key + "=" + value;
  }
  for (const std::string& rule : terms_->allowed().rules) text += "\n" + rule;
  if (arguments.contains("device_memory") && stage_) {
    text += "\na stage that takes more is handed over first: `shoal status` shows it";
  }
  if (arguments.contains("gpu_power") || arguments.contains("gpu_free")) {
    const bool users = Terms(terms_->now_ms()).gpu_free.has_value();
    for (const std::string& said : gpu_->Texts(users)) text += "\n" + said;
  }
  return net::CommandResult{text, ""};
}

Result<net::CommandResult> PeerNode::Settings() const {
  SHOAL_ASSERT_ON(*control_);
  return net::CommandResult{"", SettingsJson(config_, overlay_, terms_->now_ms())};
}

// The scheduler says so of this peer, or that it is over.
void PeerNode::OnQuarantine(const control::v1::Quarantine& told) {
  SHOAL_ASSERT_ON(*control_);
  quarantine_ = {};
  if (told.left_ms() == 0) {
    SHOAL_LOG(kInfo, "daemon", "quarantine.over", {"scheduler", invite_.scheduler.ToShort()});
    return;
  }
  const auto left_ms = static_cast<std::int64_t>(std::min(told.left_ms(), kQuarantineMsMax));
  quarantine_.until_ms = terms_->now_ms() + left_ms;
  quarantine_.until = terms_->NameOf(quarantine_.until_ms);
  constexpr std::array<std::string_view, 4> kKinds = {"weights", "values", "outputs", "failures"};
  const bool known = std::ranges::find(kKinds, told.kind()) != kKinds.end();
  quarantine_.kind = known ? told.kind() : "other";
  quarantine_.faults = told.faults();
  SHOAL_LOG(kWarning, "daemon", "quarantine", {"why", quarantine_.Text()},
            {"do", kQuarantineAdvice});
}

}  // namespace shoal::daemon
