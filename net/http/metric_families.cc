#include "net/http/metric_families.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>

namespace shoal::net {

struct MetricFamilies::State {
  std::vector<prometheus::MetricFamily> families;

  prometheus::ClientMetric& Add(const char* name, const char* help, prometheus::MetricType type,
                                const Labels& labels) {
    auto family = std::find_if(families.begin(), families.end(),
                               [&](const auto& known) { return known.name == name; });
    if (family == families.end()) {
      family = families.insert(family, prometheus::MetricFamily{name, help, type, {}});
    }
    prometheus::ClientMetric& metric = family->metric.emplace_back();
    for (const auto& [label, value] : labels) metric.label.push_back({label, value});
    return metric;
  }
};

MetricFamilies::MetricFamilies() : state_(std::make_unique<State>()) {}
MetricFamilies::~MetricFamilies() = default;

void MetricFamilies::Counter(const char* name, const char* help, double value,
                             const Labels& labels) {
  state_->Add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
}

void MetricFamilies::Gauge(const char* name, const char* help, double value, const Labels& labels) {
  state_->Add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
}

std::string MetricFamilies::Text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, state_->families);
  return out.str();
}

}  // namespace shoal::net
