// One member of the replica bench: real links to the other members, and exchanges over them, for
// tests/bench/replica_bench.py.
//
//   replica_peer --dir DIR --listen HOST --rank R --members D [--threads N] [--upload BIT_PER_S]
//                [--pacing 0]
//
// Prints where it listens as one line of JSON. Then it answers every line of JSON on its standard
// input by one, and ends with its standard input:
//   {"connect": [{"peer", "link"} by member]}  opens the links
//   {"prepare": {...}}                         makes a vector and a method (OptionsOf below)
//   {"run": ROUNDS}                            runs rounds, begun together on all members
//   {"check": true}                            tells of the last result
//   {"drop": true}                             frees everything
//   {"leave": true}                            says that all are about to go

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/checksum.h"
#include "common/executor.h"
#include "net/identity/identity.h"
#include "net/links/generation_links.h"
#include "net/links/grpc_link_hub.h"
#include "net/pacing/rate_limiter.h"
#include "replica/group_links.h"
#include "tests/bench/replica_methods.h"
#include "tests/support/on_executor.h"

namespace shoal::bench {
namespace {

using nlohmann::json;
using test_support::RunOn;

constexpr RunId kRun{0x5eed};
constexpr std::size_t kCheckedValues = 4096;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "replica_peer: %s\n", what.c_str());
  std::exit(1);
}
template <typename T>
T Need(Result<T> result) {
  if (!result.ok()) Die(result.status().ToString());
  return std::move(result).value();
}

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::uint64_t Nanoseconds() {
  return static_cast<std::uint64_t>(SystemClock().Now().time_since_epoch().count());
}

// The members' vectors: Gaussian, half of it common to all members. Any member knows them all.
class Values {
 public:
  Values() {
    std::mt19937_64 random(1);
    std::normal_distribution<float> gaussian;
    for (float& value : table_) value = gaussian(random);
  }

  float At(std::size_t member, std::uint64_t i) const {
    return (table_[Mix(i) % kTable] + table_[Mix(i + (member + 1) * kMembersApart) % kTable]) *
           0.70710678F;
  }
  Buffer Vector(std::size_t member, std::size_t n) const {
    Buffer vector(n * sizeof(float));
    float* const to = vector.floats().data();
    for (std::size_t i = 0; i < n; ++i) to[i] = At(member, i);
    return vector;
  }
  // Of the sum of all members' vectors, in pieces, at some places.
  double RelativeError(const ReplicaBenchResult& sum, std::size_t members, double scale) const {
    std::size_t values = 0;
    for (const Buffer& piece : sum) values += piece.floats().size();
    double error = 0, norm = 0;
    for (std::size_t k = 0; k < kCheckedValues; ++k) {
      const std::uint64_t i = Mix(k) % values;
      double exact = 0;
      for (std::size_t r = 0; r < members; ++r) exact += static_cast<double>(At(r, i));
      exact *= scale;
      const double off = static_cast<double>(ValueAt(sum, i)) - exact;
      error += off * off;
      norm += exact * exact;
    }
    return std::sqrt(error / norm);
  }

 private:
  static constexpr std::size_t kTable = 1 << 16;
  static constexpr std::uint64_t kMembersApart = std::uint64_t{1} << 40;

  static float ValueAt(const ReplicaBenchResult& pieces, std::size_t i) {
    for (const Buffer& piece : pieces) {
      if (i < piece.floats().size()) return piece.floats()[i];
      i -= piece.floats().size();
    }
    Die("no such value");
  }

  // The finaliser of SplitMix64.
  static std::uint64_t Mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }

  std::array<float, kTable> table_{};
};

class Member {
 public:
  explicit Member(const std::map<std::string, std::string>& options)
      : rank_(std::stoul(options.at("--rank"))),
        members_(std::stoul(options.at("--members"))),
        executor_(NewThreadExecutor("control")),
        compute_(NewThreadPool("compute", std::stoi(options.at("--threads")))) {
    const auto identity = Need(net::LoadOrCreateIdentity(options.at("--dir")));
    net::LinkHubOptions hub;
    hub.listen = options.at("--listen") + ":0";
    hub.identity = identity;
    hub.upload = std::make_shared<net::RateLimiter>(&executor_->clock());
    hub.download = std::make_shared<net::RateLimiter>(&executor_->clock());
    hub.pacing = options.at("--pacing") != "0";
    RunOn(executor_.get(), [&] {
      hub_ = Need(net::NewGrpcLinkHub(hub, executor_.get()));
      hub_->SetCaps({std::stoull(options.at("--upload"))}, {});
      return 0;
    });
    peer_.config.generation = 1;
    peer_.config.pipeline = static_cast<std::uint32_t>(rank_);
    peer_.config.pipelines = static_cast<std::uint32_t>(members_);
    peer_.control = executor_.get();
    peer_.ended = [this] { return leaving_; };
    peer_.fail = [this](const Status& status, const PeerId*) {
      if (!leaving_) Die(status.ToString());
    };
    Answer({{"peer", identity->id.ToHex()},
            {"link", options.at("--listen") + ":" + std::to_string(hub_->port())}});
  }

  void Serve() {
    for (std::string line; std::getline(std::cin, line);) {
      const json command = json::parse(line);
      if (command.contains("connect")) Connect(command["connect"]);
      if (command.contains("prepare")) Prepare(command["prepare"]);
      if (command.contains("run")) Run(command["run"]);
      if (command.contains("check")) Check();
      if (command.contains("drop")) Drop();
      if (command.contains("leave")) Leave();
    }
    RunOn(executor_.get(), [this] {
      method_.reset();
      links_.reset();
      hub_.reset();
      return 0;
    });
  }

 private:
  static void Answer(const json& answer) {
    std::printf("%s\n", answer.dump().c_str());
    std::fflush(stdout);
  }

  void Connect(const json& members) {
    std::vector<net::LinkTarget> group(members_);
    for (std::size_t r = 0; r < members_; ++r) {
      if (r == rank_) continue;
      const std::string channel =
          "group/" + std::to_string(std::min(rank_, r)) + "/" + std::to_string(std::max(rank_, r));
      group[r] = {Need(PeerId::FromHex(members[r]["peer"].get<std::string>())),
                  {members[r]["link"].get<std::string>()},
                  kRun,
                  1,
                  channel};
    }
    RunOn(executor_.get(), [&] {
      links_ =
          std::make_unique<replica::GroupLinks>(&peer_, net::GenerationLinks(hub_.get(), kRun, 1),
                                                group, std::vector<net::LinkTarget>(), [] {});
      links_->Open();
      return 0;
    });
    if (!test_support::WaitUntil(executor_.get(), [this] { return links_->up(); })) {
      Die("the links did not open");
    }
    Answer({{"connected", true}});
  }

  std::uint64_t SentWireBytes() {
    return RunOn(executor_.get(), [this] {
      std::uint64_t bytes = 0;
      for (const net::LinkStats& stats : links_->link_stats()) bytes += stats.sent_wire_bytes;
      return bytes;
    });
  }

  ReplicaBenchOptions OptionsOf(const json& from) {
    ReplicaBenchOptions options;
    options.kind = from["kind"];
    options.codec = from.value("codec", "raw:dtype=fp32");
    options.result_codec = from.value("resultCodec", "");
    options.owners_keep = from.value("ownersKeep", false);
    options.feedback = from.value("feedback", false);
    options.mean = from.value("mean", false);
    options.columns = from.value("columns", options.columns);
    options.rank = from.value("rank", options.rank);
    options.step = from.value("step", "");
    if (from.contains("chunkBytes")) options.chunk_bytes = from["chunkBytes"];
    if (from.contains("chunkValues")) options.chunk_values = from["chunkValues"];
    if (from.contains("windowBytes")) options.window_bytes = from["windowBytes"];
    options.values = std::make_shared<const Buffer>(values_.Vector(rank_, from["values"]));
    return options;
  }

  void Prepare(const json& from) {
    const ReplicaBenchOptions options = OptionsOf(from);
    mean_ = options.mean;
    round_ = 0;
    RunOn(executor_.get(), [&] {
      method_ = Need(
          NewReplicaBenchMethod(options, links_->stage_group(), executor_.get(), compute_.get()));
      return 0;
    });
    Answer({{"prepared", true}});
  }

  void Run(std::uint64_t rounds) {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto faults = usage.ru_minflt;
    const double cpu = CpuSeconds();
    const std::uint64_t wire = SentWireBytes();
    const std::uint64_t begin = Nanoseconds();
    std::promise<void> end;
    executor_->Post("run", [this, rounds, &end] { Next(rounds, &end); });
    end.get_future().wait();
    const std::uint64_t ended = Nanoseconds();
    const double used = CpuSeconds() - cpu;
    ::getrusage(RUSAGE_SELF, &usage);
    Answer({{"begin", begin},
            {"end", ended},
            {"cpuSeconds", used},
            {"sentWireBytes", SentWireBytes() - wire},
            {"paceBps", hub_->upload_pace().value},
            {"newPages", usage.ru_minflt - faults},
            {"peakBytes", usage.ru_maxrss * 1024}});
  }

  void Next(std::uint64_t left, std::promise<void>* end) {
    if (left == 0) return end->set_value();
    if (!result_.empty()) method_->Recycle(std::exchange(result_, {}));
    method_->Round(++round_, [this, left, end](Result<ReplicaBenchResult> result) {
      result_ = Need(std::move(result));
      Next(left - 1, end);
    });
  }

  void Check() {
    if (result_.empty()) {
      result_ = RunOn(executor_.get(), [this] { return method_->Agreed(); });
    }
    const double scale = mean_ ? 1.0 / static_cast<double>(members_) : 1.0;
    std::vector<std::uint64_t> hashes;
    for (const Buffer& piece : result_) hashes.push_back(Checksum64(piece.bytes()));
    Answer({{"hash", Checksum64(std::as_bytes(std::span(hashes)))},
            {"relativeError", values_.RelativeError(result_, members_, scale)}});
  }

  void Drop() {
    RunOn(executor_.get(), [this] {
      method_.reset();
      result_.clear();
      return 0;
    });
    Answer({{"dropped", true}});
  }

  void Leave() {
    RunOn(executor_.get(), [this] {
      leaving_ = true;
      return 0;
    });
    Answer({{"left", true}});
  }

  const std::size_t rank_, members_;
  const Values values_;
  const std::unique_ptr<Executor> executor_;
  const std::unique_ptr<Executor> compute_;
  replica::Member peer_;  // what the group's links know of it
  bool leaving_ = false;  // from now on a link that another member closes is no failure
  std::unique_ptr<net::LinkHub> hub_;
  std::unique_ptr<replica::GroupLinks> links_;
  std::unique_ptr<ReplicaBenchMethod> method_;
  bool mean_ = false;
  std::uint64_t round_ = 0;
  ReplicaBenchResult result_;
};

int Main(int argc, char** argv) {
  std::map<std::string, std::string> options{
      {"--threads", "2"}, {"--upload", "0"}, {"--pacing", "1"}};
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  for (const char* needed : {"--dir", "--listen", "--rank", "--members"}) {
    if (!options.contains(needed)) Die(std::string("give ") + needed);
  }
  Member(options).Serve();
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) { return shoal::bench::Main(argc, argv); }
