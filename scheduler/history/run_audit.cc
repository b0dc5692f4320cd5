#include "scheduler/history/run_audit.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "dataset/sampler.h"

namespace shoal::scheduler {
namespace {

class Audit {
 public:
  Audit(const RunLedger& ledger, const SampleDeal& deal, std::optional<std::uint64_t> row)
      : ledger_(ledger), deal_(deal), row_(row) {}

  Status CountSamples();
  void CountWork(std::uint32_t stages);
  RunAudit Take() { return std::move(audit_); }

 private:
  Status CountMicroBatch(std::uint64_t epoch, std::uint32_t global_index);
  Status Wrong(std::uint64_t step, std::uint32_t global_index, SampleId sample) const;
  Status CheckDealt(const LedgerSteps& steps) const;
  void Work(const LedgerSteps& steps, std::uint32_t stages, std::uint64_t MemberWork::*kind);
  void AddVisit(std::uint64_t epoch, std::uint64_t step, std::uint32_t global_index);
  std::size_t StepsWith(std::uint64_t step) const;

  const RunLedger& ledger_;
  const SampleDeal& deal_;
  const std::optional<std::uint64_t> row_;
  RunAudit audit_;
  std::vector<bool> counted_;                   // in the epoch, by row
  std::map<PeerId, std::size_t> member_index_;  // of audit_.members
};

Status Audit::Wrong(std::uint64_t step, std::uint32_t global_index, SampleId sample) const {
  const std::string where = "micro-batch " + std::to_string(global_index) + " of step " +
                            std::to_string(step) + ", epoch " +
                            std::to_string(step / deal_.steps_per_epoch);
  if (sample.value >= counted_.size()) {
    return DataLoss("sample " + std::to_string(sample.value) + " of " + where + " does not exist");
  }
  return DataLoss("sample " + std::to_string(sample.value) + " is counted a second time in " +
                  where);
}

Status Audit::CountMicroBatch(std::uint64_t epoch, std::uint32_t global_index) {
  const std::vector<SampleId> samples = deal_.of_epoch(epoch, global_index);
  const std::uint64_t first = epoch * deal_.steps_per_epoch;
  const std::uint64_t end = std::min(first + deal_.steps_per_epoch, ledger_.steps());
  std::size_t place = 0;
  for (std::uint64_t step = first; step < end; ++step) {
    for (std::uint32_t i = 0; i < deal_.micro_batch_rows; ++i, ++place) {
      if (place >= samples.size()) {
        return DataLoss("a sample of micro-batch " + std::to_string(global_index) + " of step " +
                        std::to_string(step) + " is never counted");
      }
      const std::uint64_t row = samples[place].value;
      if (row >= counted_.size() || counted_[row]) {
        return Wrong(step, global_index, samples[place]);
      }
      counted_[row] = true;
      ++audit_.samples;
      if (row == row_) AddVisit(epoch, step, global_index);
    }
  }
  return Status::Ok();
}

// Each micro-batch goes to one pipeline, which the plan has.
Status Audit::CheckDealt(const LedgerSteps& steps) const {
  const LedgerPlan& plan = ledger_.plans[steps.plan];
  if (plan.pipelines == 0) return Status::Ok();
  const std::vector<Dealt> dealt =
      steps.dealing.turns.empty() ? std::vector<Dealt>() : Deal(steps.dealing, deal_.micro_batches);
  for (std::uint32_t j = 0; j < deal_.micro_batches; ++j) {
    if (j < dealt.size() && dealt[j].pipeline < plan.pipelines) continue;
    return DataLoss("micro-batch " + std::to_string(j) + " of step " + std::to_string(steps.first) +
                    " went to no pipeline of the plan of generation " +
                    std::to_string(plan.generation));
  }
  return Status::Ok();
}

Status Audit::CountSamples() {
  std::uint64_t next = 0;
  for (const LedgerSteps& steps : ledger_.history) {
    if (steps.first != next || steps.size() == 0) {
      return DataLoss("step " + std::to_string(std::min(next, steps.first)) +
                      (steps.first < next ? " is counted twice" : " is missing"));
    }
    next = steps.end;
    SHOAL_RETURN_IF_ERROR(CheckDealt(steps));
  }
  for (std::uint64_t epoch = 0; epoch * deal_.steps_per_epoch < ledger_.steps(); ++epoch) {
    counted_.assign(deal_.train_rows, false);
    for (std::uint32_t j = 0; j < deal_.micro_batches; ++j) {
      SHOAL_RETURN_IF_ERROR(CountMicroBatch(epoch, j));
    }
  }
  std::ranges::stable_sort(audit_.visits, {}, &SampleVisit::step);
  return Status::Ok();
}

void Audit::AddVisit(std::uint64_t epoch, std::uint64_t step, std::uint32_t global_index) {
  SampleVisit visit{epoch, step, global_index, {}, StepsWith(step)};
  const Dealing& dealing = ledger_.history[visit.steps].dealing;
  if (!dealing.turns.empty()) {
    visit.pipeline = Deal(dealing, deal_.micro_batches)[global_index].pipeline;
  }
  audit_.visits.push_back(visit);
}

std::size_t Audit::StepsWith(std::uint64_t step) const {
  const auto after = std::ranges::upper_bound(ledger_.history, step, {}, &LedgerSteps::first);
  return static_cast<std::size_t>(after - ledger_.history.begin()) - 1;
}

void Audit::Work(const LedgerSteps& steps, std::uint32_t stages, std::uint64_t MemberWork::*kind) {
  const LedgerPlan& plan = ledger_.plans[steps.plan];
  std::map<std::uint32_t, std::uint64_t> per_step_of;
  for (const std::uint32_t pipeline : steps.pipelines()) per_step_of[pipeline] = 0;
  if (!per_step_of.empty()) {
    for (const Dealt& dealt : Deal(steps.dealing, deal_.micro_batches)) {
      ++per_step_of[dealt.pipeline];
    }
  }
  for (const auto& [pipeline, per_step] : per_step_of) {
    for (std::uint32_t s = 0; s < stages; ++s) {
      const PeerId& peer = plan.hosts[std::size_t{pipeline} * stages + s];
      const auto [at, fresh] = member_index_.try_emplace(peer, audit_.members.size());
      if (fresh) audit_.members.push_back({peer});
      audit_.members[at->second].*kind += per_step * steps.size();
    }
  }
}

void Audit::CountWork(std::uint32_t stages) {
  for (const LedgerSteps& steps : ledger_.history) Work(steps, stages, &MemberWork::counted);
  for (const VoidSteps& gone : ledger_.thrown_away) {
    Work(gone.steps, stages, &MemberWork::thrown_away);
  }
}

}  // namespace

Result<SampleDeal> MakeSampleDeal(const SampleOrder& order) {
  SHOAL_ASSIGN_OR_RETURN(const dataset::Sampler sampler,
                         dataset::Sampler::Make({order.seed, order.train_rows, order.micro_batches,
                                                 order.micro_batch_rows}));
  SampleDeal deal{
      order.train_rows, sampler.steps_per_epoch(), order.micro_batches, order.micro_batch_rows, {}};
  deal.of_epoch = [sampler](std::uint64_t epoch, std::uint32_t global_index) {
    return sampler.OfEpoch(epoch, global_index);
  };
  return deal;
}

Result<RunAudit> AuditLedger(const RunLedger& ledger, const SampleDeal& deal, std::uint32_t stages,
                             std::optional<std::uint64_t> row) {
  Audit audit(ledger, deal, row);
  SHOAL_RETURN_IF_ERROR(audit.CountSamples());
  audit.CountWork(stages);
  return audit.Take();
}

}  // namespace shoal::scheduler
