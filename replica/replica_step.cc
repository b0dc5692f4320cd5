#include "replica/replica_step.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "compression/api/value_range.h"

namespace shoal::replica {
namespace {

// Without state: all may share it.
class OneMember final : public collective::GroupChannel {
 public:
  std::size_t size() const override { return 1; }
  std::size_t rank() const override { return 0; }
  Status Send(std::size_t, std::uint64_t, Buffer) override {
    return Internal("a group of one has nobody to send to");
  }
  void SetReceiver(Receiver) override {}
};

collective::GroupChannel* GroupOfOne() {
  static OneMember channel;
  return &channel;
}

}  // namespace

std::shared_ptr<const ParameterGroup> MakeParameterGroup(
    const std::vector<model::TensorLayout>& tensors, collective::GroupChannel* channel,
    std::uint32_t copies) {
  ParameterGroup part;
  part.channel = channel;
  part.copies = copies;
  for (model::TensorLayout tensor : tensors) {
    if (!part.ranges.empty() &&
        part.ranges.back().first + part.ranges.back().values == tensor.offset) {
      part.ranges.back().values += tensor.size;
    } else {
      part.ranges.push_back({tensor.offset, tensor.size});
    }
    tensor.offset = part.values;
    part.values += tensor.size;
    part.tensors.push_back(std::move(tensor));
  }
  return std::make_shared<const ParameterGroup>(std::move(part));
}

std::shared_ptr<const ParameterGroup> Select(
    const ParameterGroup& part, const std::function<bool(const model::TensorLayout&)>& wanted) {
  std::vector<model::TensorLayout> tensors;
  std::size_t range = 0, before = 0;  // values of the ranges before it
  for (model::TensorLayout tensor : part.tensors) {
    while (range + 1 < part.ranges.size() && tensor.offset >= before + part.ranges[range].values) {
      before += part.ranges[range++].values;
    }
    tensor.offset = part.ranges[range].first + (tensor.offset - before);
    if (wanted(tensor)) tensors.push_back(std::move(tensor));
  }
  return MakeParameterGroup(tensors, part.channel, part.copies);
}

ParameterGroups MakeParameterGroups(const GroupLinks* links, bool alone,
                                    const std::vector<model::TensorLayout>& layout,
                                    const std::vector<model::TensorLayout>& shared) {
  std::vector<model::TensorLayout> own;
  std::ranges::copy_if(layout, std::back_inserter(own), [&](const model::TensorLayout& tensor) {
    return std::ranges::none_of(
        shared, [&](const model::TensorLayout& other) { return other.offset == tensor.offset; });
  });
  ParameterGroups parts;
  collective::GroupChannel* group = links != nullptr ? links->stage_group() : nullptr;
  if (group == nullptr && alone) group = GroupOfOne();
  if (group != nullptr && !own.empty()) parts.push_back(MakeParameterGroup(own, group, 1));
  if (links != nullptr && links->shared_group() != nullptr && !shared.empty()) {
    parts.push_back(MakeParameterGroup(shared, links->shared_group(), links->copies()));
  }
  return parts;
}

FinalParts FinalAfter(const std::vector<model::TensorLayout>& layout,
                      const std::vector<std::vector<std::size_t>>& weight_parts) {
  FinalParts final_after;
  for (std::size_t part = 0; part < weight_parts.size(); ++part) {
    for (const std::size_t entry : weight_parts[part]) {
      final_after[layout.at(entry).offset] = part + 1;
    }
  }
  SHOAL_CHECK(final_after.size() == layout.size());
  return final_after;
}

Status ReadParameters(model::StageModel* model, model::StateVector which,
                      const ParameterGroup& part, std::span<float> values) {
  SHOAL_CHECK(values.size() == part.values);
  return ReadParameters(model, which, part, 0, values);
}

Status ReadParameters(model::StageModel* model, model::StateVector which,
                      const ParameterGroup& part, std::size_t first, std::span<float> values) {
  SHOAL_CHECK(first <= part.values && values.size() <= part.values - first);
  for (const ParameterGroup::Range& range : part.ranges) {
    if (values.empty()) break;
    const std::size_t skipped = std::min(first, range.values);
    first -= skipped;
    const std::size_t count = std::min(values.size(), range.values - skipped);
    if (count == 0) continue;
    SHOAL_RETURN_IF_ERROR(model->Read(which, range.first + skipped, values.first(count)));
    values = values.subspan(count);
  }
  return Status::Ok();
}

Status ReadGradients(model::StageModel* model, const ParameterGroup& part, std::span<float> values,
                     GradientMark* mark, float most, const compression::ValueHome& home) {
  SHOAL_CHECK(values.size() == part.values);
  if (home.on_host()) {
    SHOAL_RETURN_IF_ERROR(ReadParameters(model, model::StateVector::kGradients, part, values));
  } else {
    std::span<float> rest = values;
    for (const ParameterGroup::Range& range : part.ranges) {
      SHOAL_RETURN_IF_ERROR(
          model->ReadThere(model::StateVector::kGradients, range.first, rest.first(range.values)));
      rest = rest.subspan(range.values);
    }
  }
  SHOAL_ASSIGN_OR_RETURN(const bool within, home.AllWithin(values, most));
  if (within) return Status::Ok();
  mark->Set();
  return home.Zero(values);
}

Status WriteGradients(model::StageModel* model, const ParameterGroup& part,
                      std::span<const float> values, const compression::ValueHome& home) {
  if (home.on_host()) return WriteParameters(model, model::StateVector::kGradients, part, values);
  SHOAL_CHECK(values.size() == part.values);
  for (const ParameterGroup::Range& range : part.ranges) {
    SHOAL_RETURN_IF_ERROR(
        model->WriteThere(model::StateVector::kGradients, range.first, values.first(range.values)));
    values = values.subspan(range.values);
  }
  return Status::Ok();
}

Status WriteParameters(model::StageModel* model, model::StateVector which,
                       const ParameterGroup& part, std::span<const float> values) {
  SHOAL_CHECK(values.size() == part.values);
  return WriteParameters(model, which, part, 0, values);
}

Status WriteParameters(model::StageModel* model, model::StateVector which,
                       const ParameterGroup& part, std::size_t first,
                       std::span<const float> values) {
  SHOAL_CHECK(first <= part.values && values.size() <= part.values - first);
  for (const ParameterGroup::Range& range : part.ranges) {
    if (values.empty()) break;
    const std::size_t skipped = std::min(first, range.values);
    first -= skipped;
    const std::size_t count = std::min(values.size(), range.values - skipped);
    if (count == 0) continue;
    SHOAL_RETURN_IF_ERROR(model->Write(which, range.first + skipped, values.first(count)));
    values = values.subspan(count);
  }
  return Status::Ok();
}

std::vector<optimizer::DecayRun> DecayRunsOf(const ParameterGroup& part) {
  std::vector<optimizer::DecayRun> runs;
  for (const model::TensorLayout& tensor : part.tensors) {
    const bool decays = tensor.shape.size() >= 2;
    if (runs.empty() || runs.back().decays != decays) runs.push_back({tensor.offset, decays});
  }
  return runs;
}

void RestoreGradients(Member* member, TaskScope* scope,
                      const std::shared_ptr<const ParameterGroup>& part,
                      std::shared_ptr<const Buffer> own,
                      std::shared_ptr<const compression::ValueHome> home) {
  auto write = [model = member->model, part, own = std::move(own), home = std::move(home)] {
    return WriteGradients(model, *part, own->floats(), *home);
  };
  scope->Run(member->compute, "gradients.put_back", std::move(write),
             [member](const Status& status) {
               if (!status.ok()) member->fail(status, nullptr);
             });
}

std::vector<std::uint32_t> PlannedPipelines(const Member& member) {
  if (!member.counting.empty()) return member.counting;
  std::vector<std::uint32_t> all(member.config.pipelines);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

std::vector<std::uint64_t> GroupWeights(const ParameterGroup& part,
                                        const std::vector<std::uint32_t>& pipelines) {
  const std::size_t count = part.channel->size() / part.copies;
  std::vector<std::uint64_t> weights(part.channel->size());
  for (const std::uint32_t pipeline : pipelines) {
    for (std::size_t end = 0; end < part.copies; ++end) weights[end * count + pipeline] = 1;
  }
  return weights;
}

std::string AwaitedText(const GroupLinks& links, const collective::GroupChannel& group,
                        const std::vector<std::size_t>& members, std::string_view what,
                        const PeerId** peer) {
  if (members.empty()) return {};
  *peer = &links.peer(group, members.front());
  return "the " + std::string(what) + " of " + links.Name(group, members.front());
}

optimizer::AdamWOptions OptimizerOptionsOf(const Member& member, std::uint64_t step) {
  const model::OptimizerOptions& optimizer = member.model->options().optimizer;
  optimizer::AdamWOptions options;
  options.beta1 = optimizer.beta1;
  options.beta2 = optimizer.beta2;
  options.epsilon = optimizer.epsilon;
  options.weight_decay = optimizer.weight_decay;
  options.step = step;
  return options;
}

double ClipOf(const Member& member, const ReduceOrder& order) {
  double squares = 0;
  for (const std::uint32_t pipeline : order.pipelines) {
    squares += order.local_norms[pipeline] * order.local_norms[pipeline];
  }
  return optimizer::ClipFactor(member.model->options().optimizer.clip_norm,
                               std::sqrt(squares / static_cast<double>(order.pipelines.size())));
}

void CountRaw(const ParameterGroup& part, const std::vector<std::uint64_t>& weights,
              std::uint64_t values, KindBytes* replica, const std::vector<double>& shares) {
  const std::uint64_t bytes = values * sizeof(float), members = weights.size();
  const std::size_t rank = part.channel->rank();
  const bool counts = weights[rank] > 0;
  std::uint64_t owners = 0;
  double all = 0, mine = 0;
  for (std::size_t r = 0; r < members; ++r) {
    if (weights[r] == 0) continue;
    ++owners;
    all += shares.empty() ? 1 : shares[r];
    if (r == rank) mine = shares.empty() ? 1 : shares[r];
  }
  const auto own =
      all > 0 ? static_cast<std::uint64_t>(static_cast<double>(bytes) * mine / all) : 0;
  replica->raw_sent += (counts ? bytes - own : 0) + own * (members - 1);
  replica->raw_received += bytes - own + (counts ? own * (owners - 1) : 0);
}

std::vector<double> SharesOfGroup(const Member& member, const ParameterGroup& part,
                                  const std::vector<std::uint64_t>& weights) {
  const std::vector<double>& shares = part.shared() ? member.shared_shares : member.group_shares;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    if (weights[r] > 0 && shares[r] > 0) return shares;
  }
  return {};
}

}  // namespace shoal::replica
