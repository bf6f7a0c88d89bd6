// SPDX-License-Identifier: Apache-2.0
#include "choosing.h"

#include <algorithm>

#include "sim/advise.h"
#include "sim/choose.h"
#include "topknot/budget.h"

namespace py = pybind11;

namespace topknot::python {
namespace {

py::dict dict_of(const sim::Prediction& row) {
  return py::dict(
      py::arg("scheme") = row.scheme, py::arg("ranks") = row.ranks,
      py::arg("bandwidth_gbps") = row.gbps, py::arg("density") = row.density,
      py::arg("step_seconds") = row.step_seconds,
      py::arg("exchange_seconds") = row.exchange_seconds,
      py::arg("exposed_seconds") = row.exposed_seconds,
      py::arg("bytes_per_rank") = row.bytes, py::arg("messages_per_rank") = row.messages,
      py::arg("speedup_vs_dense") = row.speedup_vs_dense,
      py::arg("speedup_vs_dense_bf16") = row.speedup_vs_dense_bf16,
      py::arg("efficiency") = row.efficiency, py::arg("method") = sim::name(row.method));
}

std::vector<sim::Candidate> candidates_of(const std::vector<std::string>& names,
                                          double density) {
  std::vector<sim::Candidate> made;
  for (const std::string& name : names)
    made.push_back(name == sim::kRounds ? sim::Candidate::rounds(kDefaultBudget)
                                        : sim::Candidate::of(name, density));
  return made;
}

}  // namespace

py::tuple choose(Session& session, const Layout& parameters, std::uint64_t bytes,
                 std::uint64_t every) {
  bool sparse = false;
  std::vector<std::string> whole;
  std::string reason;
  {
    const py::gil_scoped_release release;
    const auto plans = session.plan_buckets(parameters, bytes);
    const sim::Choice choice = session.choose(plans, every);
    sparse = choice.any_sparse();
    reason = choice.reason(session.scheme());
    for (std::size_t i = 0; i < plans.size(); ++i)
      if (sparse && !choice.buckets[i].sparse && !choice.buckets[i].whole)
        for (const TensorSlot& tensor : plans[i].layout.tensors)
          whole.push_back(tensor.name);
  }
  return py::make_tuple(sparse, whole, reason);
}

py::dict advise(double params, double compute, int workers, double gbps, double latency,
                double density, const std::vector<std::string>& schemes, bool simulated) {
  const sim::Workload workload{.params = params, .compute = compute};
  sim::Line line{gbps, find_network("1gbe").network};
  line.network.between = line_speed(gbps, latency, line.network.between.overhead);
  sim::Predictor predictor(workload, sim::default_calibration(), {},
                           simulated ? sim::Method::simulated : sim::Method::closed_form);
  sim::Predictor closed(workload, sim::default_calibration(), {},
                        sim::Method::closed_form);
  sim::Advice advice;
  {
    const py::gil_scoped_release release;
    advice =
        sim::advise(predictor, closed, candidates_of(schemes, density), workers, line);
  }
  py::list table;
  for (const sim::Prediction& row : advice.table) table.append(dict_of(row));
  return py::dict(py::arg("choice") = advice.choice.scheme,
                  py::arg("density") = advice.choice.density,
                  py::arg("break_even_gbps") = advice.break_even_gbps,
                  py::arg("reason") = advice.reason, py::arg("table") = table);
}

}  // namespace topknot::python
