// ChaosMachines: what `shoal chaos` makes of this machine, where it has the right: for each process
// a machine of its own, as the network and the disk see it, whose line can be cut or slowed down,
// and whose disk can be full.
//
// Each process has a network namespace with one line to a hub, which routes; each peer's folder is
// a small file system in memory. All of it is in a mount namespace of this process: the machine's
// interfaces and mounts stay as they are, and the kernel removes all when the last process ends,
// however it ends. Thread: main, before any other begins.

#ifndef SHOAL_CLIENT_CHAOS_MACHINES_H_
#define SHOAL_CLIENT_CHAOS_MACHINES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"

namespace shoal::client {

class ChaosMachines {
 public:
  struct Wanted {
    bool lines = false;
    std::vector<std::string> folders = {};  // each becomes a disk; they exist
    std::size_t processes = 0;              // of the swarm: the scheduler, then the peers
  };
  // What cannot be made is missing, and says why.
  static std::unique_ptr<ChaosMachines> Make(const Wanted& wanted);
  ~ChaosMachines();

  // Why there are none; empty: there are.
  const std::string& no_lines() const { return no_lines_; }
  const std::string& no_disks() const { return no_disks_; }

  // Command words before a program, and where it is found. Process 0 is the scheduler.
  std::vector<std::string> Prefix(std::size_t process) const;
  std::string Address(std::size_t process) const;

  // Nothing comes or goes any more, and nobody is told. Mend undoes it.
  Status Cut(std::size_t process) const;
  Status Mend(std::size_t process) const;
  // What it sends, and what is sent to it; `rate` as tc takes it, empty: as fast as it goes.
  Status Slow(std::size_t process, const std::string& rate) const;
  // Not a byte more fits into the folder; then there is room again.
  static Status FillDisk(const std::string& folder);
  static Status FreeDisk(const std::string& folder);

 private:
  ChaosMachines() = default;
  Status MakeLines(std::size_t processes);
  static Status MakeDisks(const std::vector<std::string>& folders);

  std::vector<std::string> names_;  // of namespaces, as processes; empty: all on the loopback
  std::string no_lines_ = "nobody asked for them", no_disks_ = no_lines_;
};

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_CHAOS_MACHINES_H_
