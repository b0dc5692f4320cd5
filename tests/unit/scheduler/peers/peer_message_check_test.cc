// What peers say: the most of each field that is taken, and one more that is not.

#include "scheduler/peers/peer_message_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "net/control/control.h"
#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

using control::v1::PeerMessage;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

RunConfig Config() {
  RunConfig config;
  config.run = RunId{7};
  config.stages = 2;
  config.pipelines = 3;
  config.micro_batches = 6;
  config.micro_batch_rows = 2;
  config.row_tokens = 16;
  config.layers = 4;
  return config;
}

std::string Checked(const std::function<void(PeerMessage*)>& say) {
  PeerMessage message;
  say(&message);
  const Status status = CheckPeerMessage(message, Config());
  if (status.ok()) return "ok";
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("malformed message: "));
  return status.message();
}

// `say` makes a message with a field of `size`.
void ExpectLimit(std::uint64_t most, const char* named,
                 const std::function<void(PeerMessage*, std::uint64_t size)>& say) {
  EXPECT_EQ(Checked([&](PeerMessage* message) { say(message, most); }), "ok") << named;
  EXPECT_THAT(Checked([&](PeerMessage* message) { say(message, most + 1); }), HasSubstr(named));
}

TEST(PeerMessageCheck, TextsAndListsOfAHelloAreBounded) {
  using std::string;
  ExpectLimit(kNameCharactersMax, "name has 65",
              [](auto* m, auto n) { m->mutable_hello()->set_name(string(n, 'x')); });
  ExpectLimit(kNameCharactersMax, "version has 65",
              [](auto* m, auto n) { m->mutable_hello()->set_version(string(n, 'x')); });
  ExpectLimit(kDeviceCharactersMax, "device has 257",
              [](auto* m, auto n) { m->mutable_hello()->set_device(string(n, 'x')); });
  ExpectLimit(kAddressesMax, "addresses has 17", [](auto* m, auto n) {
    for (std::uint64_t i = 0; i < n; ++i) m->mutable_hello()->add_addresses("h");
  });
  ExpectLimit(kAddressCharactersMax, "address has 256",
              [](auto* m, auto n) { m->mutable_hello()->add_addresses(string(n, 'x')); });
  ExpectLimit(65535, "listen_port 65536", [](auto* m, auto n) {
    m->mutable_hello()->set_listen_port(static_cast<std::uint32_t>(n));
  });
  ExpectLimit(kHeldLossesMax, "held.losses has 257", [](auto* m, auto n) {
    for (std::uint64_t i = 0; i < n; ++i) m->mutable_hello()->mutable_held()->add_losses(1);
  });
  EXPECT_THAT(Checked([](auto* m) { m->mutable_hello()->mutable_held()->add_losses(kNan); }),
              HasSubstr("not finite"));
}

TEST(PeerMessageCheck, AHeartbeatIsBounded) {
  using std::string;
  ExpectLimit(kStatusBytesMax, "status_json has 262145",
              [](auto* m, auto n) { m->mutable_heartbeat()->set_status_json(string(n, ' ')); });
  ExpectLimit(kAddressCharactersMax, "mapped_address has 256",
              [](auto* m, auto n) { m->mutable_heartbeat()->set_mapped_address(string(n, 'x')); });
  ExpectLimit(kAddressesMax, "addresses has 17", [](auto* m, auto n) {
    for (std::uint64_t i = 0; i < n; ++i) m->mutable_heartbeat()->add_addresses("h");
  });
  ExpectLimit(kAddressCharactersMax, "address has 256",
              [](auto* m, auto n) { m->mutable_heartbeat()->add_addresses(string(n, 'x')); });
  ExpectLimit(kNameCharactersMax, "state has 65",
              [](auto* m, auto n) { m->mutable_heartbeat()->set_state(string(n, 'x')); });
  constexpr std::uint64_t kPetabit = 1'000'000'000'000'000;
  ExpectLimit(kPetabit, "petabit",
              [](auto* m, auto n) { m->mutable_heartbeat()->mutable_line()->set_upload_bps(n); });
  ExpectLimit(kPetabit, "petabit",
              [](auto* m, auto n) { m->mutable_heartbeat()->mutable_line()->set_download_bps(n); });
}

TEST(PeerMessageCheck, AStepHasSoManyMicroBatchesAndLabels) {
  ExpectLimit(6, "more micro-batches", [](auto* m, auto n) {
    m->mutable_step_ready()->set_micro_batches(static_cast<std::uint32_t>(n));
  });
  ExpectLimit(6 * 2 * 16, "more labels than a step",
              [](auto* m, auto n) { m->mutable_step_ready()->set_labels(n); });
  ExpectLimit(std::uint64_t{kEvaluateRowsMax} * 16, "more labels than an evaluation",
              [](auto* m, auto n) { m->mutable_step_ready()->set_evaluation_labels(n); });
}

TEST(PeerMessageCheck, TimesAreNumbersFromZeroOn) {
  using Timing = control::v1::StageTiming;
  for (const double bad : {-1.0, kNan, std::numeric_limits<double>::infinity()}) {
    for (void (Timing::*const set)(double) :
         {&Timing::set_forward_ms, &Timing::set_backward_ms, &Timing::set_send_forward_ms,
          &Timing::set_send_backward_ms, &Timing::set_backward_weights_ms,
          &Timing::set_round_trip_ms}) {
      const auto with = [&](double ms) {
        return Checked([&](auto* m) { (m->mutable_step_ready()->mutable_timing()->*set)(ms); });
      };
      EXPECT_EQ(with(5), "ok");
      EXPECT_THAT(with(bad), HasSubstr("a measured time"));
    }
    EXPECT_THAT(Checked([&](auto* m) { m->mutable_sync_done()->set_exchange_ms(bad); }),
                HasSubstr("exchange_ms"));
    EXPECT_THAT(Checked([&](auto* m) {
                  auto* const trip = m->mutable_plan_ready()->add_round_trips();
                  trip->set_peer(std::string(kHashBytes, 'p'));
                  trip->set_ms(bad);
                }),
                HasSubstr("a round-trip time"));
  }
}

// Members clip by what others report: the root of a sum below zero would reach all of them.
TEST(PeerMessageCheck, ASumOfSquaresIsNotBelowZeroAndMayBeLost) {
  const auto ready = [](double sum) {
    return Checked([&](auto* m) { m->mutable_step_ready()->set_squared_norm(sum); });
  };
  const auto synced = [](double sum) {
    return Checked([&](auto* m) { m->mutable_sync_done()->set_squared_norm(sum); });
  };
  for (const double good : {0.0, 4.0, kNan}) {
    EXPECT_EQ(ready(good), "ok");
    EXPECT_EQ(synced(good), "ok");
  }
  for (const double bad : {-1e-9, -1e300, -std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(ready(bad), HasSubstr("squared norm below zero"));
    EXPECT_THAT(synced(bad), HasSubstr("squared norm below zero"));
  }
  ExpectLimit(10, "above exact_values", [](auto* m, auto n) {
    m->mutable_sync_done()->set_exact_values(10);
    m->mutable_sync_done()->set_factor_values(n);
  });
}

TEST(PeerMessageCheck, ListsOfPeersFilesAndBoundariesAreBounded) {
  const std::string hash(kHashBytes, 'h');
  ExpectLimit(3, "round_trips has 4", [&](auto* m, auto n) {  // of one stage that shares nothing
    for (std::uint64_t i = 0; i < n; ++i) {
      m->mutable_plan_ready()->add_round_trips()->set_peer(hash);
    }
  });
  ExpectLimit(2, "more entries than a stage has", [](auto* m, auto n) {
    for (std::uint64_t i = 0; i < n; ++i) m->mutable_applied()->add_boundaries();
  });
  ExpectLimit(1, "a stage that the run does not have", [](auto* m, auto n) {
    m->mutable_prepared()->set_stage(static_cast<std::uint32_t>(n));
  });
  ExpectLimit(2 * (4 + 3), "files has 15", [&](auto* m, auto n) {
    m->mutable_checkpoint_done();
    for (std::uint64_t i = 0; i < n; ++i) {
      auto* const file = m->mutable_checkpoint_done()->add_files();
      file->set_name("layer.0");
      file->set_hash(hash);
      file->set_size(3);
    }
  });
}

TEST(PeerMessageCheck, KeysAndHashesHaveTheirLength) {
  for (const std::size_t size : {kHashBytes - 1, kHashBytes + 1}) {
    const std::string wrong(size, 'h');
    EXPECT_THAT(Checked([&](auto* m) { m->mutable_link_broken()->set_peer(wrong); }),
                HasSubstr("peer has"));
    EXPECT_THAT(
        Checked([&](auto* m) { m->mutable_plan_ready()->add_round_trips()->set_peer(wrong); }),
        HasSubstr("peer has"));
    EXPECT_THAT(Checked([&](auto* m) {
                  auto* const file = m->mutable_checkpoint_done()->add_files();
                  file->set_name("layer.0");
                  file->set_size(3);
                  file->set_hash(wrong);
                }),
                HasSubstr("hash has"));
  }
}

TEST(PeerMessageCheck, AFileHasANameAndBytes) {
  const auto with = [](const std::string& name, std::uint64_t size) {
    return Checked([&](auto* m) {
      auto* const file = m->mutable_checkpoint_done()->add_files();
      file->set_name(name);
      file->set_size(size);
      file->set_hash(std::string(kHashBytes, 'h'));
    });
  };
  EXPECT_EQ(with(std::string(kNameCharactersMax, 'x'), 1), "ok");
  EXPECT_THAT(with("", 1), HasSubstr("the name of a file"));
  EXPECT_THAT(with(std::string(kNameCharactersMax + 1, 'x'), 1), HasSubstr("the name of a file"));
  EXPECT_THAT(with("layer.0", 0), HasSubstr("a file is empty"));
}

TEST(PeerMessageCheck, ASpotCheckMeasuresSomethingAndDigestsAreOfMicroBatches) {
  const auto checked = [](double difference, double coding, std::size_t error) {
    return Checked([&](PeerMessage* message) {
      message->mutable_spot_checked()->set_difference(difference);
      message->mutable_spot_checked()->set_coding_error(coding);
      message->mutable_spot_checked()->set_error(std::string(error, 'x'));
    });
  };
  EXPECT_EQ(checked(1e9, 0, kReasonCharactersMax), "ok");
  EXPECT_THAT(checked(0, 0, kReasonCharactersMax + 1), HasSubstr("error"));
  EXPECT_THAT(checked(-1, 0, 0), HasSubstr("negative"));
  EXPECT_THAT(checked(0, std::nan(""), 0), HasSubstr("not finite"));
  const auto digests = [](std::uint32_t count) {
    return Checked([&](PeerMessage* message) {
      for (std::uint32_t i = 0; i < count; ++i) message->mutable_step_ready()->add_input_digests(i);
    });
  };
  EXPECT_EQ(digests(Config().micro_batches), "ok");
  EXPECT_THAT(digests(Config().micro_batches + 1), HasSubstr("more digests"));
}

TEST(PeerMessageCheck, AMessageHasAKind) {
  EXPECT_THAT(Checked([](PeerMessage*) {}), HasSubstr("no kind"));
}

TEST(PeerMessageCheck, AnotherProtocolOrRunIsNotAdmitted) {
  control::v1::Hello hello;
  hello.set_protocol(net::kProtocolVersion);
  EXPECT_TRUE(CheckAdmission(hello, Config()).ok()) << "any run";
  hello.set_run(7);
  EXPECT_TRUE(CheckAdmission(hello, Config()).ok());
  hello.set_run(8);
  EXPECT_THAT(CheckAdmission(hello, Config()).message(), HasSubstr("join with the new invite"));
  hello.set_run(7);
  hello.set_protocol(net::kProtocolVersion + 1);
  EXPECT_THAT(CheckAdmission(hello, Config()).message(), HasSubstr("update shoal-scheduler"));
}

}  // namespace
}  // namespace shoal::scheduler
