#include "daemon/gpu/settled_device.h"

#include <cstddef>

#include "common/file.h"

namespace shoal::daemon {
namespace {

constexpr std::size_t kFileBytesMax = 64;

}  // namespace

Status SettleDevice(const std::string& path, const std::string& asked, bool gpu) {
  const Result<std::string> kept = ReadFile(path, kFileBytesMax);
  if (asked == "auto" && !gpu && kept.ok() && *kept == "gpu\n") {
    return Aborted(
        "this peer trained on a GPU, and now none answers: see `nvidia-smi`, and in a container "
        "start the container again; to train on the CPU, start shoald once with --device cpu");
  }
  const std::string now = gpu ? "gpu\n" : "cpu\n";
  if (kept.ok() && *kept == now) return Status::Ok();
  return WriteFileAtomic(path, now).WithContext("the kind of device is kept in a file");
}

}  // namespace shoal::daemon
