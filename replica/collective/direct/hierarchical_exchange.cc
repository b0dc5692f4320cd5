// An all-reduce is three direct exchanges: a reduce-scatter in each LAN, whose leader owns all; the
// exchange of the leaders; an all-gather from the leader in each LAN. An all-gather has only the
// last two, a reduce-scatter the first two. Inside a LAN the number of a round is doubled, plus one
// for the all-gather. Tags are the rounds of these exchanges.

#include "replica/collective/direct/hierarchical_exchange.h"

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "replica/collective/exchange_coders.h"
#include "replica/collective/exchange_result.h"
#include "replica/collective/subgroup_channel.h"

namespace shoal::collective {
namespace {

constexpr std::uint64_t kRoundMax = std::uint64_t{1} << 55;
constexpr std::size_t kEarlyMessageBytes = 256;  // what holding a message costs beside its bytes

// An exchange among some members.
struct Part {
  std::unique_ptr<SubgroupChannel> channel;
  std::unique_ptr<Exchange> exchange;  // before the channel in destruction
};

// Thread: control.
class HierarchicalExchange final : public Exchange {
 public:
  HierarchicalExchange(HierarchicalConfig config, GroupChannel* channel, Executor* control,
                       Executor* compute)
      : config_(std::move(config)), channel_(channel), control_(control), compute_(compute) {
    channel_->SetReceiver([this](std::size_t from, std::uint64_t tag, Buffer message) {
      OnMessage(from, tag, std::move(message));
    });
  }
  ~HierarchicalExchange() override {
    ++operation_;
    channel_->SetReceiver(nullptr);
  }

  void Start(ExchangeRequest request, std::function<void(Result<Buffer>)> done) override;
  void Abort() override {
    SHOAL_ASSERT_ON(*control_);
    Finish(Aborted("the exchange inside the stage group was aborted"));
  }
  void Commit() override;
  void Rollback() override;
  void Recycle(Buffer result) override {
    SHOAL_ASSERT_ON(*control_);
    if (lan_) lan_->exchange->Recycle(std::move(result));
  }
  std::vector<std::size_t> Awaited() const override;
  ExchangeTraffic traffic() const override {
    SHOAL_ASSERT_ON(*control_);
    return traffic_;
  }

 private:
  using Leaders = std::vector<std::size_t>;
  struct Early {
    std::size_t from;
    std::uint64_t tag;
    Buffer message;
  };

  std::size_t rank() const { return channel_->rank(); }
  std::size_t size() const { return channel_->size(); }
  std::size_t own_lan() const { return config_.groups[rank()]; }
  std::size_t leader() const { return leaders_[own_lan()]; }

  Status CheckStart(const ExchangeRequest& request) const;
  Result<Part> MakePart(const ExchangeConfig& config, const std::vector<std::size_t>& members,
                        const std::string& name) const;
  Status MakeParts(const Leaders& leaders);
  std::vector<std::uint64_t> LanWeights() const;
  void ReduceLan();
  void ReduceLeaders(std::shared_ptr<const Buffer> values);
  void Listen();
  void GatherLan(std::shared_ptr<const Buffer> values);
  void Run(Part* part, ExchangeRequest request, std::function<void(Buffer)> then);
  void OnMessage(std::size_t from, std::uint64_t tag, Buffer message);
  void Deliver(std::size_t from, std::uint64_t tag, Buffer message);
  void Refuse(std::size_t from, const Status& status);
  void Finish(Result<Buffer> result);

  const HierarchicalConfig config_;
  GroupChannel* const channel_;
  Executor* const control_;
  Executor* const compute_;
  TaskScope replies_{control_};
  std::uint64_t operation_ = 1;  // number of the round, counted here

  // Leaders' exchanges with the memories of rounds that count, or may.
  std::map<Leaders, Part> between_;
  Leaders leaders_;          // of the running or last round
  std::optional<Part> lan_;  // where the LAN has several members; of leaders_
  Part* running_ = nullptr;
  ExchangeTraffic traffic_;
  bool started_ = false;
  std::uint64_t last_round_ = 0;
  std::deque<Early> early_;  // messages of later rounds
  std::vector<std::size_t> early_bytes_ = std::vector<std::size_t>(channel_->size());
  Status broken_;

  std::optional<ExchangeRequest> request_;  // running; none: no round runs
  std::function<void(Result<Buffer>)> done_;
};

Status HierarchicalExchange::CheckStart(const ExchangeRequest& request) const {
  SHOAL_RETURN_IF_ERROR(broken_);
  if (request_) return FailedPrecondition("an exchange is still running");
  if (request.round >= kRoundMax || (started_ && request.round <= last_round_)) {
    return InvalidArgument("exchange round " + std::to_string(request.round) +
                           " does not follow round " + std::to_string(last_round_) +
                           ", or is beyond 2^55");
  }
  if (request.weights.size() != size()) {
    return InvalidArgument("an exchange among " + std::to_string(size()) + " members got " +
                           std::to_string(request.weights.size()) + " weights");
  }
  std::uint64_t all = 0;
  for (const std::uint64_t weight : request.weights) {
    if (weight > UINT64_MAX - all) return InvalidArgument("the weights of an exchange overflow");
    all += weight;
  }
  if (all == 0) return InvalidArgument("no member of the exchange has a weight above 0");
  if (!request.shares.empty()) {
    return InvalidArgument("an exchange in two levels takes shares from its config only");
  }
  const bool made = request.op == CollectiveOp::kAllGather && request.transform != nullptr;
  if (request.values == nullptr ? !made : request.values->size() % sizeof(float) != 0) {
    return InvalidArgument("an exchange takes fp32 values");
  }
  return Status::Ok();
}

Result<Part> HierarchicalExchange::MakePart(const ExchangeConfig& config,
                                            const std::vector<std::size_t>& members,
                                            const std::string& name) const {
  ExchangeConfig named = config;
  named.label = name + " of groups=";
  for (const std::size_t group : config_.groups) named.label += std::to_string(group) + ",";
  Part part;
  part.channel = std::make_unique<SubgroupChannel>(channel_, members);
  SHOAL_ASSIGN_OR_RETURN(part.exchange,
                         NewDirectExchange(named, part.channel.get(), control_, compute_));
  return part;
}

// The exchanges of a round with these leaders.
Status HierarchicalExchange::MakeParts(const Leaders& leaders) {
  const bool leads = leaders[own_lan()] == rank();
  if (leads && !between_.contains(leaders)) {
    ExchangeConfig config = config_.exchange;
    Leaders members = leaders;
    std::sort(members.begin(), members.end());
    if (!config.shares.empty()) {
      config.shares.clear();
      for (const std::size_t member : members) {
        config.shares.push_back(config_.exchange.shares[member]);
      }
    }
    SHOAL_ASSIGN_OR_RETURN(Part part, MakePart(config, members, "leaders"));
    between_.emplace(leaders, std::move(part));
  }
  if (lan_ && leaders_ == leaders) return Status::Ok();
  std::vector<std::size_t> lan;
  for (std::size_t r = 0; r < size(); ++r) {
    if (config_.groups[r] == own_lan()) lan.push_back(r);
  }
  lan_.reset();
  if (lan.size() == 1) return Status::Ok();
  ExchangeConfig config = config_.exchange;
  config.codec = config_.lan_codec;
  config.result_codec = compression::kLosslessCodec;
  config.error_feedback = false;
  config.result_feedback.reset();
  // Parts count members from 0, so equal seeds would mean equal random numbers in all LANs.
  config.seed ^= (own_lan() + 1) * 0x9e3779b97f4a7c15;
  config.shares.clear();
  for (const std::size_t r : lan) config.shares.push_back(r == leaders[own_lan()] ? 1.0 : 0.0);
  SHOAL_ASSIGN_OR_RETURN(lan_, MakePart(config, lan, "LAN " + std::to_string(own_lan())));
  return Status::Ok();
}

void HierarchicalExchange::Start(ExchangeRequest request,
                                 std::function<void(Result<Buffer>)> done) {
  SHOAL_ASSERT_ON(*control_);
  Status status = CheckStart(request);
  if (status.ok()) {
    Leaders leaders = LanLeaders(config_.groups, request.weights);
    status = MakeParts(leaders);
    leaders_ = std::move(leaders);
  }
  if (!status.ok()) {
    return PostResult(&replies_, std::move(done), std::move(status));
  }
  done_ = std::move(done);
  started_ = true;
  last_round_ = request.round;
  traffic_ = {};
  request_ = std::move(request);
  if (request_->op == CollectiveOp::kAllGather) {
    leader() == rank() ? ReduceLeaders(request_->values) : Listen();
  } else {
    ReduceLan();
  }
  std::deque<Early> early = std::exchange(early_, {});
  early_bytes_.assign(size(), 0);
  for (Early& held : early) OnMessage(held.from, held.tag, std::move(held.message));
}

// Of the members of the own LAN.
std::vector<std::uint64_t> HierarchicalExchange::LanWeights() const {
  std::vector<std::uint64_t> weights;
  for (const std::size_t r : lan_->channel->members()) weights.push_back(request_->weights[r]);
  return weights;
}

void HierarchicalExchange::Run(Part* part, ExchangeRequest request,
                               std::function<void(Buffer)> then) {
  running_ = part;
  part->exchange->Start(std::move(request), [this, part, mine = operation_,
                                             then = std::move(then)](Result<Buffer> result) {
    if (operation_ != mine) return;
    const ExchangeTraffic more = part->exchange->traffic();
    traffic_.sent_bytes += more.sent_bytes;
    traffic_.received_bytes += more.received_bytes;
    traffic_.sent_messages += more.sent_messages;
    traffic_.received_messages += more.received_messages;
    running_ = nullptr;
    if (!result.ok()) return Finish(result.status());
    then(std::move(*result));
  });
}

void HierarchicalExchange::ReduceLan() {
  const bool leads = leader() == rank();
  if (!lan_ || request_->weights[leader()] == 0) {  // alone, or all of the LAN only listen
    return leads ? ReduceLeaders(request_->values) : Listen();
  }
  ExchangeRequest request;
  request.round = 2 * last_round_;
  request.tensor = request_->tensor;
  request.weights = LanWeights();
  request.combine = request_->combine;
  request.values = request_->values;
  request.op = CollectiveOp::kReduceScatter;
  Run(&*lan_, std::move(request), [this, leads](Buffer sum) {
    if (!leads) return Listen();
    ReduceLeaders(std::make_shared<const Buffer>(std::move(sum)));
  });
}

void HierarchicalExchange::ReduceLeaders(std::shared_ptr<const Buffer> values) {
  Part& part = between_.at(leaders_);
  ExchangeRequest request = *request_;
  request.alike = false;  // the LANs' sums are not
  request.values = std::move(values);
  request.weights.clear();
  for (const std::size_t member : part.channel->members()) {
    std::uint64_t weight = 0;
    for (std::size_t r = 0; r < size(); ++r) {
      if (config_.groups[r] == config_.groups[member]) weight += request_->weights[r];
    }
    request.weights.push_back(weight);
  }
  Run(&part, std::move(request), [this](Buffer agreed) {
    if (!lan_ || request_->op == CollectiveOp::kReduceScatter) return Finish(std::move(agreed));
    GatherLan(std::make_shared<const Buffer>(std::move(agreed)));
  });
}

// What is left for a member that does not lead: a reduce-scatter has nothing for it, as it owns
// nothing.
void HierarchicalExchange::Listen() {
  request_->op == CollectiveOp::kReduceScatter ? Finish(Buffer()) : GatherLan(nullptr);
}

// `values`: what was agreed, at the leader.
void HierarchicalExchange::GatherLan(std::shared_ptr<const Buffer> values) {
  ExchangeRequest request;
  request.round = 2 * last_round_ + 1;
  request.tensor = request_->tensor;
  for (const std::size_t r : lan_->channel->members()) {
    request.weights.push_back(r == leader() ? 1 : 0);
  }
  request.op = CollectiveOp::kAllGather;
  if (values == nullptr) {  // only listens, but the number of values must be the leader's
    values = request_->values;
    request.count = request_->count;
  }
  request.values = std::move(values);
  if (request.values == nullptr) {
    request.values = std::make_shared<const Buffer>(request.count * sizeof(float));
  }
  Run(&*lan_, std::move(request), [this](Buffer agreed) { Finish(std::move(agreed)); });
}

void HierarchicalExchange::OnMessage(std::size_t from, std::uint64_t tag, Buffer message) {
  SHOAL_ASSERT_ON(*control_);
  if (!broken_.ok()) return;
  if (from >= size() || from == rank()) return Refuse(from, InvalidArgument("it is no member"));
  const std::uint64_t round = config_.groups[from] == own_lan() ? tag / 2 : tag;
  if (started_ && (round < last_round_ || (round == last_round_ && !request_))) return;  // late
  if (request_ && round == last_round_) return Deliver(from, tag, std::move(message));
  const std::size_t bytes = message.size() + kEarlyMessageBytes;
  const std::size_t most = config_.exchange.early_bytes_max;
  if (bytes > most - std::min(early_bytes_[from], most)) {
    return Refuse(from, ResourceExhausted("it is ahead by more messages than are buffered"));
  }
  early_bytes_[from] += bytes;
  early_.push_back({from, tag, std::move(message)});
}

void HierarchicalExchange::Deliver(std::size_t from, std::uint64_t tag, Buffer message) {
  if (config_.groups[from] == own_lan()) {
    if (lan_->channel->Deliver(from, tag, &message)) return;
  } else if (leader() == rank()) {
    if (between_.at(leaders_).channel->Deliver(from, tag, &message)) return;
  }
  const Status status =
      InvalidArgument("a message of member " + std::to_string(from) +
                      " of the stage group, which does not speak for its LAN here; are all "
                      "members in the same plan?");
  channel_->Blame(from, status);
  Finish(status);
}

void HierarchicalExchange::Refuse(std::size_t from, const Status& status) {
  channel_->Blame(from, status);
  broken_ =
      status.WithContext("a message of member " + std::to_string(from) + " of the stage group");
  early_.clear();
  Finish(broken_);
}

std::vector<std::size_t> HierarchicalExchange::Awaited() const {
  SHOAL_ASSERT_ON(*control_);
  if (running_ == nullptr) return {};
  std::vector<std::size_t> members;
  for (const std::size_t r : running_->exchange->Awaited()) {
    members.push_back(running_->channel->members()[r]);
  }
  return members;
}

void HierarchicalExchange::Commit() {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_CHECK(!request_);
  // Memories of other leaders' rounds are of no use from now on.
  std::erase_if(between_, [this](const auto& part) { return part.first != leaders_; });
  for (auto& [leaders, part] : between_) part.exchange->Commit();
}

void HierarchicalExchange::Rollback() {
  SHOAL_ASSERT_ON(*control_);
  Abort();
  for (auto& [leaders, part] : between_) part.exchange->Rollback();
}

void HierarchicalExchange::Finish(Result<Buffer> result) {
  if (!request_) return;
  ++operation_;
  if (running_ != nullptr) running_->exchange->Abort();
  running_ = nullptr;
  request_.reset();
  PostResult(&replies_, std::exchange(done_, nullptr), std::move(result));
}

}  // namespace

Result<std::unique_ptr<Exchange>> NewHierarchicalExchange(const HierarchicalConfig& config,
                                                          GroupChannel* channel, Executor* control,
                                                          Executor* compute) {
  if (config.groups.size() != channel->size() || config.groups != NumberedGroups(config.groups)) {
    return InvalidArgument("the LANs of an exchange have numbers from 0 on for each of its " +
                           std::to_string(channel->size()) + " members");
  }
  // What the parts would refuse later.
  for (const std::string& codec : {config.lan_codec, config.exchange.codec}) {
    ExchangeConfig checked = config.exchange;
    checked.codec = codec;
    SHOAL_ASSIGN_OR_RETURN(const auto coders, CheckedCoders(checked, channel->size()));
  }
  return std::unique_ptr<Exchange>(
      std::make_unique<HierarchicalExchange>(config, channel, control, compute));
}

}  // namespace shoal::collective
