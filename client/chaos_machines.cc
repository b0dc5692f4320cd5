#include "client/chaos_machines.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <utility>

#include "client/base/process.h"

namespace shoal::client {
namespace {

constexpr const char* kIp = "/usr/sbin/ip";
constexpr const char* kNamespaces = "/run/netns";
constexpr const char* kHub = "hub";
constexpr const char* kDiskOptions = "size=128m,mode=0700";
constexpr const char* kFiller = "/filler";
constexpr off_t kFillLeast_bytes = 4096;

std::string Subnet(std::size_t process) { return "10.78." + std::to_string(process + 1) + "."; }
std::string Line(std::size_t process) { return "line" + std::to_string(process); }
std::string In(const std::string& name) { return "ip netns exec " + name + " "; }

// Mounts from now on are this process's and its children's alone.
Status OwnMounts() {
  if (::geteuid() != 0) return PermissionDenied("root");
  if (::unshare(CLONE_NEWNS) != 0) return FromErrno(errno, "a mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return FromErrno(errno, "mounts of its own");
  }
  return Status::Ok();
}

}  // namespace

std::unique_ptr<ChaosMachines> ChaosMachines::Make(const Wanted& wanted) {
  std::unique_ptr<ChaosMachines> machines(new ChaosMachines);
  if (!wanted.lines && wanted.folders.empty()) return machines;
  const Status own = OwnMounts();
  const auto needs = [&own](const Status& made) {
    const Status& failed = own.ok() ? made : own;
    return failed.ok() ? "" : "needs the right to make it (" + failed.message() + ")";
  };
  if (wanted.lines) {
    machines->no_lines_ = needs(own.ok() ? machines->MakeLines(wanted.processes) : own);
    if (!machines->no_lines_.empty()) machines->names_.clear();
  }
  if (!wanted.folders.empty())
    machines->no_disks_ = needs(own.ok() ? MakeDisks(wanted.folders) : own);
  return machines;
}

// Names of namespaces are mounts, too, and so they go with this process.
Status ChaosMachines::MakeLines(std::size_t processes) {
  if (::access(kIp, X_OK) != 0) return NotFound("iproute2 is not installed");
  std::error_code error;
  std::filesystem::create_directories(kNamespaces, error);
  if (::mount("none", kNamespaces, "tmpfs", 0, "mode=0755") != 0) {
    return FromErrno(errno, std::string("mount ") + kNamespaces);
  }
  std::string text = std::string("ip netns add ") + kHub + "\n" + In(kHub) +
                     "sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'\n";
  for (std::size_t process = 0; process < processes; ++process) {
    const std::string name = "machine" + std::to_string(process), line = Line(process);
    const std::string in = In(name), hub = In(kHub), net = Subnet(process);
    text += "ip netns add " + name + "\n" + in + "ip link set lo up\n";
    text += "ip link add " + line + " netns " + kHub + " type veth peer name line netns " + name +
            "\n" + hub + "ip link set " + line + " up\n" + in + "ip link set line up\n";
    text += hub + "ip address add " + net + "1/24 dev " + line + "\n";
    text += in + "ip address add " + net + "2/24 dev line\n";
    text += in + "ip route add default via " + net + "1\n";
    names_.push_back(name);
  }
  return RunScript(text);
}

Status ChaosMachines::MakeDisks(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (::mount("none", folder.c_str(), "tmpfs", 0, kDiskOptions) != 0) {
      return FromErrno(errno, "mount " + folder);
    }
  }
  return Status::Ok();
}

// Namespaces of the network live as long as their last process or name.
ChaosMachines::~ChaosMachines() {
  if (names_.empty()) return;
  names_.emplace_back(kHub);
  for (const std::string& name : names_) {
    if (Status status = RunScript("ip netns del " + name); !status.ok()) {
      std::cerr << "shoal: " << status.message() << "\n";
    }
  }
}

std::vector<std::string> ChaosMachines::Prefix(std::size_t process) const {
  if (names_.empty()) return {};
  return {kIp, "netns", "exec", names_[process]};
}

std::string ChaosMachines::Address(std::size_t process) const {
  return names_.empty() ? "127.0.0.1" : Subnet(process) + "2";
}

Status ChaosMachines::Cut(std::size_t process) const {
  return RunScript(In(kHub) + "ip rule add iif " + Line(process) + " blackhole\n" + In(kHub) +
                   "ip route add blackhole " + Subnet(process) + "2/32\n");
}

Status ChaosMachines::Mend(std::size_t process) const {
  return RunScript(In(kHub) + "ip rule del iif " + Line(process) + " blackhole\n" + In(kHub) +
                   "ip route del blackhole " + Subnet(process) + "2/32\n");
}

Status ChaosMachines::Slow(std::size_t process, const std::string& rate) const {
  std::string text;
  for (const auto& [in, device] :
       {std::pair{In(names_[process]), std::string("line")}, std::pair{In(kHub), Line(process)}}) {
    text += in + "tc qdisc " +
            (rate.empty() ? "del dev " + device + " root\n"
                          : "replace dev " + device + " root tbf rate " + rate +
                                " burst 16kb latency 400ms\n");
  }
  return RunScript(text);
}

Status ChaosMachines::FillDisk(const std::string& folder) {
  const int file = ::open((folder + kFiller).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return FromErrno(errno, "make " + folder + kFiller);
  struct statvfs info {};
  off_t size = 0;
  off_t more = ::fstatvfs(file, &info) == 0
                   ? static_cast<off_t>(info.f_bavail) * static_cast<off_t>(info.f_bsize)
                   : 0;
  // Others write meanwhile: what is left is taken in ever smaller parts.
  while (more >= kFillLeast_bytes) {
    if (::posix_fallocate(file, size, more) == 0) {
      size += more;
    } else {
      more /= 2;
    }
  }
  ::close(file);
  return Status::Ok();
}

Status ChaosMachines::FreeDisk(const std::string& folder) {
  if (::unlink((folder + kFiller).c_str()) == 0) return Status::Ok();
  return FromErrno(errno, "remove " + folder + kFiller);
}

}  // namespace shoal::client
