// The delta store against plain files, and what epochs of random rewriting cost it.
//
// "write" and "read" compare records of 3.2 MB with files of the same sizes in the same folder.
// Both are durable (fsync) and read with a cold page cache, in turns; the median of the rounds
// counts. "epochs" fills a store, then rewrites every record once per epoch in a new random order,
// five times. Write amplification is bytes written by RocksDB's own counters over image bytes
// committed; beside it stands the kernel's count for this process. Space amplification is the most
// blocks the folder ever had over the live image bytes.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/checksum.h"
#include "storage/delta/delta_store.h"
#include "tests/bench/bench_command.h"
#include "tests/bench/bench_json.h"

namespace shoal::storage {
namespace {

constexpr std::uint64_t kMiB = 1ull << 20;
constexpr std::uint64_t kImageBytes = 3'200'000;
constexpr int kRounds = 6;
constexpr int kEpochs = 5;
// Bounds of the epochs. A store below the default --live may have more space for its size: it has
// few files, and each counts in full.
constexpr std::uint64_t kJudgedLiveBytes = 512 * kMiB;
constexpr double kWriteAmplificationMax = 1.3;
constexpr double kSpaceDefaultMax = 2.2, kSpaceTightMax = 1.5;
constexpr BoundaryEnd kPlace{RunId{1}, 0, BoundarySide::kSender};

struct Options {
  bool json = false;
  std::string folder = ".";
  std::uint64_t live_bytes = kJudgedLiveBytes;
  std::uint64_t memory_bytes = 256 * kMiB;
  std::string only;  // cases whose name contains this
};

struct Row {
  std::string name;
  std::optional<double> over_plain, write_amplification, space_amplification;
  double space_max = 0;  // bound of space_amplification, if it has a value
  std::uint64_t memory_bytes = 0;
  std::string note;
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "store_bench: %s\n", what.c_str());
  std::exit(1);
}
void Require(const Status& status) {
  if (!status.ok()) Die(status.ToString());
}
void Require(bool condition, const char* what) {
  if (!condition) Die(std::string(what) + ": " + std::strerror(errno));
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A folder of its own that goes when the bench ends.
class Scratch {
 public:
  explicit Scratch(const std::string& parent) {
    std::string name = parent + "/store_bench.XXXXXX";
    Require(::mkdtemp(name.data()) != nullptr, "mkdtemp");
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::uint64_t AllocatedBytes(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    struct stat status {};
    // A file that RocksDB unlinks meanwhile does not count.
    if (::stat(file.path().c_str(), &status) == 0) bytes += status.st_blocks * 512ull;
  }
  return bytes;
}

// Takes everything below `folder` out of the page cache; it must be on the disk already.
void Cool(const std::string& folder) {
  ::sync();
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    const int fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

// Bytes that the kernel was made to write to disk for this process.
std::uint64_t KernelWrittenBytes() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  while (io >> name >> value) {
    if (name == "write_bytes:") return value;
  }
  return 0;
}

class Images {
 public:
  explicit Images(std::uint64_t bytes) : bytes_(bytes), pattern_(bytes) {
    std::mt19937_64 random(7);
    for (std::uint64_t i = 0; i + 8 <= bytes; i += 8) {
      const std::uint64_t value = random();
      std::memcpy(pattern_.data() + i, &value, 8);
    }
  }
  // No two images are alike.
  Buffer Make(std::uint64_t sample, std::uint64_t version) const {
    Buffer image = Buffer::CopyOf(pattern_.bytes());
    std::memcpy(image.data(), &sample, sizeof(sample));
    std::memcpy(image.data() + sizeof(sample), &version, sizeof(version));
    return image;
  }
  DeltaUpdate Update(std::uint64_t sample, std::uint64_t version) const {
    DeltaUpdate update;
    update.segment.value = sample;
    update.record.version = version;
    update.record.tokens = 1;
    update.record.hidden = static_cast<std::uint32_t>(bytes_ / 2);
    update.record.image = Make(sample, version);
    update.record.checksum = Checksum64(update.record.image.bytes());
    return update;
  }

 private:
  const std::uint64_t bytes_;
  Buffer pattern_;
};

std::vector<std::uint64_t> Shuffled(std::uint64_t count, std::uint64_t seed) {
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0ull);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  return order;
}

std::unique_ptr<DeltaStore> Open(const Options& options, const std::string& path,
                                 StoreSpace space) {
  auto store = OpenRocksDeltaStore({path, 0, options.memory_bytes, space});
  Require(store.status());
  return std::move(store).value();
}

// ---- against plain files -------------------------------------------------------------------

// Both ways hold the same images. Which comes first alternates, and they take turns every few
// records. So neither has the better moment of the disk or of the page cache.
class Contest {
 public:
  Contest(const Options& options, StoreSpace space)
      : count_(options.live_bytes / kImageBytes),
        images_(kImageBytes),
        scratch_(options.folder),
        plain_path_(scratch_.path() + "/plain"),
        store_(Open(options, scratch_.path() + "/store", space)) {
    plain_ = ::open(plain_path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    Require(plain_ >= 0, "open");
  }
  ~Contest() { ::close(plain_); }

  // Plain seconds over store seconds.
  double Write(bool plain_first) {
    double plain = 0, store = 0;
    for (std::uint64_t i = 0; i < count_; i += kTurn) {
      const std::uint64_t end = std::min(i + kTurn, count_);
      InTurns(
          plain_first, [&] { plain += WritePlain(i, end); }, [&] { store += WriteStore(i, end); });
    }
    InTurns(
        plain_first, [&] { plain += Timed([&] { Require(::fsync(plain_) == 0, "fsync"); }); },
        [&] { store += Timed([&] { Require(store_->Flush()); }); });
    rate_ = static_cast<double>(count_ * kImageBytes) / 1e6 / store;
    return plain / store;
  }

  double Read(bool plain_first, std::uint64_t seed) {
    Cool(scratch_.path());
    const auto order = Shuffled(count_, seed);
    double plain = 0, store = 0;
    for (const std::uint64_t i : order) {
      InTurns(
          plain_first, [&] { plain += ReadPlain(i); }, [&] { store += ReadStore(i); });
    }
    rate_ = static_cast<double>(count_ * kImageBytes) / 1e6 / store;
    return plain / store;
  }

  double rate() const { return rate_; }  // MB/s of the store, last time
  std::uint64_t memory_bytes() const { return store_->stats().memory_bytes; }

 private:
  static constexpr std::uint64_t kTurn = 8;

  template <typename Work>
  static double Timed(const Work& work) {
    const double start = Seconds();
    work();
    return Seconds() - start;
  }
  template <typename Plain, typename Store>
  static void InTurns(bool plain_first, const Plain& plain, const Store& store) {
    if (plain_first) plain();
    store();
    if (!plain_first) plain();
  }

  double WritePlain(std::uint64_t begin, std::uint64_t end) {
    double seconds = 0;
    for (std::uint64_t i = begin; i < end; ++i) {
      const Buffer image = images_.Make(i, 1);
      seconds += Timed([&] {
        Require(::write(plain_, image.data(), image.size()) == static_cast<ssize_t>(image.size()),
                "write");
      });
    }
    return seconds;
  }
  double WriteStore(std::uint64_t begin, std::uint64_t end) {
    std::vector<DeltaUpdate> updates;
    for (std::uint64_t i = begin; i < end; ++i) updates.push_back(images_.Update(i, 1));
    return Timed([&] { Require(store_->Commit(kPlace, updates, nullptr)); });
  }
  double ReadPlain(std::uint64_t i) {
    return Timed([&] {
      Buffer image(kImageBytes);
      Require(::pread(plain_, image.data(), image.size(), static_cast<off_t>(i * kImageBytes)) ==
                  static_cast<ssize_t>(image.size()),
              "pread");
    });
  }
  double ReadStore(std::uint64_t i) {
    return Timed([&] {
      const auto record = store_->Get(kPlace, SegmentId{i});
      Require(record.status());
      if (!record->has_value()) Die("a record is missing");
    });
  }

  const std::uint64_t count_;
  const Images images_;
  const Scratch scratch_;
  const std::string plain_path_;
  const std::unique_ptr<DeltaStore> store_;
  int plain_ = -1;
  double rate_ = 0;
};

std::vector<Row> AgainstPlainFiles(const Options& options, StoreSpace space,
                                   const std::string& suffix) {
  std::vector<double> writes, reads, write_rates, read_rates;
  std::uint64_t memory = 0;
  for (int round = 0; round < kRounds; ++round) {
    Contest contest(options, space);
    writes.push_back(contest.Write(round % 2 == 0));
    write_rates.push_back(contest.rate());
    reads.push_back(contest.Read(round % 2 == 0, static_cast<std::uint64_t>(round)));
    read_rates.push_back(contest.rate());
    memory = std::max(memory, contest.memory_bytes());
  }
  const auto rate = [](const std::vector<double>& rates) {
    return std::to_string(static_cast<int>(Median(rates))) + " MB/s";
  };
  return {{"write 3.2 MB " + suffix, Median(writes), {}, {}, 0, memory, rate(write_rates)},
          {"read 3.2 MB " + suffix, Median(reads), {}, {}, 0, memory, rate(read_rates)}};
}

// ---- epochs --------------------------------------------------------------------------------

Row Epochs(const Options& options, std::uint64_t image_bytes, StoreSpace space,
           const std::string& name) {
  const Scratch scratch(options.folder);
  const std::string path = scratch.path() + "/store";
  const auto store = Open(options, path, space);
  const std::uint64_t count = options.live_bytes / image_bytes;
  const std::uint64_t per_step = std::max<std::uint64_t>(count / 64, 1);
  const Images images(image_bytes);
  std::uint64_t folder_max = 0, memory = 0, kernel_before = 0;
  DeltaStoreStats before;
  for (std::uint64_t epoch = 0; epoch <= kEpochs; ++epoch) {
    const auto order = Shuffled(count, 100 + epoch);
    for (std::uint64_t at = 0; at < count; at += per_step) {
      std::vector<DeltaUpdate> updates;
      for (std::uint64_t i = at; i < std::min(at + per_step, count); ++i) {
        updates.push_back(images.Update(order[i], epoch + 1));
      }
      Require(store->Commit(kPlace, updates, nullptr));
      memory = std::max(memory, store->stats().memory_bytes);
      if (epoch > 0) folder_max = std::max(folder_max, AllocatedBytes(path));
    }
    if (epoch > 0) continue;
    Require(store->Flush());
    before = store->stats();
    kernel_before = KernelWrittenBytes();
  }
  Require(store->Flush());
  const DeltaStoreStats after = store->stats();
  if (after.records != count || after.lost + after.corrupt > 0) Die("records are missing");
  const double committed = static_cast<double>(after.committed_bytes - before.committed_bytes);
  const double written = static_cast<double>(after.disk_written_bytes - before.disk_written_bytes);
  const double kernel = static_cast<double>(KernelWrittenBytes() - kernel_before);
  char note[96];
  std::snprintf(note, sizeof(note), "kernel %.3f, %" PRIu64 " records", kernel / committed, count);
  return {name,
          {},
          written / committed,
          static_cast<double>(folder_max) / static_cast<double>(after.bytes),
          space == StoreSpace::kTight ? kSpaceTightMax : kSpaceDefaultMax,
          memory,
          note};
}

// ---- bounds --------------------------------------------------------------------------------

// Says on standard error which bounds a row missed.
bool Holds(const Row& row) {
  const auto below = [&](const char* what, const std::optional<double>& value, double bound) {
    if (!value || *value < bound) return true;
    std::fprintf(stderr, "store_bench: %s: %s amplification is %.3f, not below %.1f\n",
                 row.name.c_str(), what, *value, bound);
    return false;
  };
  const bool written = below("write", row.write_amplification, kWriteAmplificationMax);
  return below("space", row.space_amplification, row.space_max) && written;
}

// ---- output --------------------------------------------------------------------------------

std::string Field(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(name, 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string Machine(const Options& options) {
  utsname name{};
  ::uname(&name);
  struct statfs file_system {};
  ::statfs(options.folder.c_str(), &file_system);
  char type[32];
  std::snprintf(type, sizeof(type), "0x%lx", static_cast<unsigned long>(file_system.f_type));
  const std::string kind = file_system.f_type == 0xef53       ? "ext4"
                           : file_system.f_type == 0x58465342 ? "xfs"
                           : file_system.f_type == 0x9123683e ? "btrfs"
                           : file_system.f_type == 0x01021994 ? "tmpfs"
                                                              : type;
  return Field("/proc/cpuinfo", "model name") + ", " +
         std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + " cores, Linux " + name.release + ", " +
         kind;
}

std::string Number(const std::optional<double>& value, const char* without) {
  if (!value) return without;
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f", *value);
  return text;
}

void Print(const Row& row) {
  std::printf("%-24s %14s %8s %8s %8.1f MiB  %s\n", row.name.c_str(),
              Number(row.over_plain, "-").c_str(), Number(row.write_amplification, "-").c_str(),
              Number(row.space_amplification, "-").c_str(),
              static_cast<double>(row.memory_bytes) / static_cast<double>(kMiB), row.note.c_str());
  std::fflush(stdout);
}

void PrintJson(const std::vector<Row>& rows, const std::string& machine) {
  using bench_command::Json;
  const auto known = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  Json made = Json::array();
  for (const Row& row : rows) {
    made.push_back({{"case", row.name},
                    {"overPlainFile", known(row.over_plain)},
                    {"writeAmplification", known(row.write_amplification)},
                    {"spaceAmplification", known(row.space_amplification)},
                    {"memoryBytes", row.memory_bytes}});
  }
  bench_command::PrintJson(made, {{"disk", machine}});
}

Options ParseArguments(int argc, char** argv) {
  bench_command::Command command(
      {.name = "store",
       .measures =
           "The delta store against plain files of the same sizes, and what epochs of random "
           "rewriting cost it: bytes written, and blocks of the folder, over the bytes of m.",
       .needs = "three times --live on the disk; a folder on tmpfs measures memory.",
       .takes = "some minutes, as fast as the disk is.",
       .bounds = "all cases ran; with --live of 512 and more, epochs wrote less than 1.3 times "
                 "the bytes of m, and took less than 2.2 times their space, tight 1.5 times"});
  Options options;
  std::uint64_t live = options.live_bytes / kMiB, memory = options.memory_bytes / kMiB;
  command.Text("--folder", "DIR", "where the files go; default: the current folder",
               &options.folder);
  command.Count("--live", "MIB", "bytes of m held at a time, 64 and more; default 512", &live);
  command.Count("--memory", "MIB", "the store's memory setting; default 256", &memory);
  command.Text("--only", "TEXT", "only cases whose name contains TEXT", &options.only);
  command.Parse(argc, argv);
  if (live < 64) command.WrongUsage("--live takes 64 and more");
  options.json = command.json();
  options.live_bytes = live * kMiB;
  options.memory_bytes = memory * kMiB;
  return options;
}

int Main(int argc, char** argv) {
  const Options options = ParseArguments(argc, argv);
  const std::string machine = Machine(options);
  if (!options.json) {
    std::printf("%s\n%" PRIu64 " MiB of m\n\n%-24s %14s %8s %8s %12s\n", machine.c_str(),
                options.live_bytes / kMiB, "case", "over plain", "write x", "space x", "memory");
  }
  std::vector<Row> rows;
  bool held = true;
  const auto add = [&](Row row) {
    if (!options.json) Print(row);
    if (options.live_bytes >= kJudgedLiveBytes && !Holds(row)) held = false;
    rows.push_back(std::move(row));
  };
  const auto wanted = [&](const std::string& name) {
    return name.find(options.only) != std::string::npos;
  };
  struct Setting {
    StoreSpace space;
    const char* name;
  };
  constexpr Setting kSettings[] = {{StoreSpace::kDefault, "default"},
                                   {StoreSpace::kTight, "tight"}};
  struct Size {
    std::uint64_t bytes;
    const char* name;
  };
  constexpr Size kSizes[] = {
      {64 << 10, "64 KiB"}, {512 << 10, "512 KiB"}, {kImageBytes, "3.2 MB"}, {8 * kMiB, "8 MiB"}};
  for (const Setting& setting : kSettings) {
    if (!wanted(std::string("write read 3.2 MB ") + setting.name)) continue;
    for (Row& row : AgainstPlainFiles(options, setting.space, setting.name)) add(std::move(row));
  }
  for (const Setting& setting : kSettings) {
    for (const Size& size : kSizes) {
      const std::string name = std::string("epochs ") + size.name + " " + setting.name;
      if (wanted(name)) add(Epochs(options, size.bytes, setting.space, name));
    }
  }
  if (options.json) PrintJson(rows, machine);
  return bench_command::ExitCodeOf(held);
}

}  // namespace
}  // namespace shoal::storage

int main(int argc, char** argv) { return shoal::storage::Main(argc, argv); }
