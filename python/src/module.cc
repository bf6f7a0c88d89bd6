// SPDX-License-Identifier: Apache-2.0
//
// topknot._core: the binding under the Python package. Nothing here is for users.

#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "amx.h"
#include "choosing.h"
#include "core/wire/wire.h"
#include "engine/option_fields.h"
#include "hook.h"
#include "session.h"
#include "spending.h"
#include "state_dict.h"
#include "topknot/error.h"
#include "transports/c10d/c10d.h"

namespace py = pybind11;

namespace topknot::python {
namespace {

using WithoutGil = py::call_guard<py::gil_scoped_release>;

/// What reduce() gives back to Python.
struct Ticket {
  Future future;
  std::shared_ptr<std::vector<std::int64_t>> positions;
  void wait() const { future->waitAndThrow(); }
  /// Of reduce_update(), after wait().
  at::Tensor settled() const {
    return at::tensor(*positions, at::TensorOptions(at::kLong));
  }
};

Ticket reduce(Session& session, int slot, at::Tensor x, const Reduction& reduction) {
  const py::gil_scoped_release release;
  return {session.reduce(slot, std::move(x), reduction), reduction.settled};
}

// The communication thread may need Python's lock to free a tensor, so a thread that waits for
// it must not hold the lock.
void drop(Session* session) {
  if (PyGILState_Check() != 0) {
    const py::gil_scoped_release release;
    delete session;
  } else {
    delete session;
  }
}

using NamedShapes = std::vector<std::pair<std::string, std::vector<std::uint64_t>>>;

Layout layout_of(const NamedShapes& tensors) {
  Layout layout;
  for (const auto& [name, shape] : tensors)
    layout.tensors.push_back({name, layout.size(), shape});
  return layout;
}

/// Every option's default and meaning, by name.
py::dict options() {
  py::dict all;
  engine::for_each_option([&](const char* name, auto member, const char* meaning) {
    all[name] = py::make_tuple(EngineOptions().*member, meaning);
  });
  return all;
}

EngineOptions options_of(const py::dict& values) {
  EngineOptions options;
  engine::for_each_option([&](const char* name, auto member, const char*) {
    using Value = std::remove_reference_t<decltype(options.*member)>;
    options.*member = values[name].template cast<Value>();
  });
  return options;
}

/// make_memory(size, kind, parameters, device) gives a DeviceMemory. Without a stand-in for a device
/// tensors of the processor stay there.
void select_on_devices(Session& session, py::object make_memory, py::object stand_in) {
  // Whatever drops the last copy may not have Python's lock.
  const std::shared_ptr<py::object> make(new py::object(std::move(make_memory)),
                                         [](py::object* object) {
                                           const py::gil_scoped_acquire acquire;
                                           delete object;
                                         });
  const std::shared_ptr<py::object> instead(new py::object(std::move(stand_in)),
                                            [](py::object* object) {
                                              const py::gil_scoped_acquire acquire;
                                              delete object;
                                            });
  session.select_on_devices(
      [make, instead](std::uint64_t size, const Spec& memory,
                      c10::Device device) -> std::shared_ptr<DeviceVector> {
        const py::gil_scoped_acquire acquire;
        if (device.is_cpu() && instead->is_none()) return nullptr;
        return std::make_shared<DeviceVector>(
            (*make)(size, memory.name, memory.params.str(), device), *instead, memory);
      });
}

py::dict dict_of(const Layout& layout, const engine::Totals& totals) {
  py::list names;
  for (const TensorSlot& tensor : layout.tensors) names.append(tensor.name);
  return py::dict(
      py::arg("parameters") = names, py::arg("size") = layout.size(),
      py::arg("steps") = totals.steps, py::arg("not_finite") = totals.nonfinite,
      py::arg("coordinates") = totals.coordinates, py::arg("wanted") = totals.wanted,
      py::arg("agreed") = totals.agreed, py::arg("sent_bytes") = totals.sent_bytes,
      py::arg("sent_messages") = totals.sent_messages,
      py::arg("select_seconds") = totals.select_seconds,
      py::arg("wait_seconds") = totals.wait_seconds, py::arg("seconds") = totals.seconds);
}

py::list totals_of(Session& session) {
  std::vector<std::pair<Layout, engine::Totals>> all;
  {
    const py::gil_scoped_release release;
    all = session.totals();
  }
  py::list list;
  for (const auto& [layout, totals] : all) list.append(dict_of(layout, totals));
  return list;
}

py::dict save(Session& session) {
  State state;
  {
    const py::gil_scoped_release release;
    state = session.save();
  }
  return to_dict(std::move(state));
}

void load(Session& session, const py::dict& values, std::uint64_t step) {
  State state = from_dict(values);
  const py::gil_scoped_release release;
  session.load(std::move(state), step);
}

void bind_errors(py::module_& m) {
  // The last one registered is asked first, so the particular come after the general.
  const auto error = py::register_exception<Error>(m, "Error", PyExc_RuntimeError);
  error.attr("__doc__") = "All errors of topknot.";
  const auto config = py::register_exception<ConfigError>(
      m, "ConfigError", py::make_tuple(error, py::handle(PyExc_ValueError)));
  config.attr("__doc__") =
      "Something was asked for that cannot be. The sentence says what is allowed, with "
      "the "
      "nearest name. Nothing has happened yet.";
  const auto contract = py::register_exception<ContractError>(m, "ContractError", error);
  contract.attr("__doc__") =
      "A promise inside topknot or between it and its caller was broken: a bug.";
  const auto link = py::register_exception<LinkError>(m, "LinkError", error);
  link.attr("__doc__") =
      "A rank was lost or silent for longer than the timeout; the sentence names it. The "
      "session is of no use any more: end the process, and resume from a checkpoint.";
  const auto disagreement =
      py::register_exception<DisagreementError>(m, "DisagreementError", link);
  disagreement.attr("__doc__") =
      "The ranks called unlike: other options, tensors or steps. The sentence names the "
      "field, the ranks and their values.";
}

void bind_session(py::module_& m) {
  py::class_<Ticket>(m, "Ticket")
      .def("wait", &Ticket::wait, WithoutGil())
      .def("settled", &Ticket::settled);
  py::class_<Session, std::shared_ptr<Session>>(m, "Session")
      .def(py::init([](const py::dict& options, std::uint64_t coordinates,
                       const std::string& group, std::vector<int> hosts, double timeout,
                       std::string flight) {
             const EngineOptions own = options_of(options);
             const py::gil_scoped_release release;
             auto link = make_c10d(group, std::move(hosts), {.timeout = timeout});
             return std::shared_ptr<Session>(
                 new Session(own, coordinates, std::move(link), std::move(flight)), drop);
           }),
           py::arg("options"), py::arg("coordinates"), py::arg("group"), py::arg("hosts"),
           py::arg("timeout"), py::arg("flight"))
      .def_property_readonly("rank", &Session::rank)
      .def_property_readonly("size", &Session::size)
      .def("raise_failure", &Session::raise_failure)
      .def("step", &Session::step, WithoutGil())
      .def("nonfinite_steps", &Session::nonfinite_steps, WithoutGil())
      .def(
          "add_slot",
          [](Session& session, const NamedShapes& tensors,
             std::optional<c10::Device> device) {
            const Layout layout = layout_of(tensors);
            const py::gil_scoped_release release;
            return session.add_slot(layout, device);
          },
          py::arg("tensors"), py::arg("device") = py::none())
      .def("select_on_devices", &select_on_devices, py::arg("make_memory"),
           py::arg("stand_in") = py::none())
      .def("set_learning_rate", &Session::set_learning_rate, py::arg("rate"))
      .def(
          "reduce",
          [](Session& session, int slot, at::Tensor x, bool last, bool whole) {
            using How = Reducer::Mode;
            return reduce(session, slot, std::move(x),
                          {.how = whole ? How::whole : How::by_scheme, .last = last});
          },
          py::arg("slot"), py::arg("tensor"), py::arg("last") = true,
          py::arg("whole") = false)
      .def(
          "reduce_update",
          [](Session& session, int slot, at::Tensor x, bool last) {
            auto settled = std::make_shared<std::vector<std::int64_t>>();
            return reduce(session, slot, std::move(x),
                          {.last = last, .settled = std::move(settled)});
          },
          py::arg("slot"), py::arg("tensor"), py::arg("last") = true)
      .def(
          "reduce_residuals",
          [](Session& session, int slot, at::Tensor x) {
            return reduce(session, slot, std::move(x), {.how = Reducer::Mode::residuals});
          },
          py::arg("slot"), py::arg("tensor"))
      .def("end_settling", &Session::end_settling)
      .def("rehearse", &Session::rehearse, py::arg("on"))
      .def(
          "plan_buckets",
          [](Session& session, const NamedShapes& tensors, std::uint64_t bytes) {
            std::vector<std::vector<std::size_t>> buckets;
            for (auto& plan : session.plan_buckets(layout_of(tensors), bytes))
              buckets.push_back(std::move(plan.parameters));
            return buckets;
          },
          py::arg("tensors"), py::arg("bytes"))
      .def(
          "choose",
          [](Session& session, const NamedShapes& tensors, std::uint64_t bytes,
             std::uint64_t every) {
            return choose(session, layout_of(tensors), bytes, every);
          },
          py::arg("tensors"), py::arg("bytes"), py::arg("every"))
      .def(
          "sent_whole",
          [](Session& session, const NamedShapes& tensors) {
            return session.sent_whole(layout_of(tensors));
          },
          py::arg("tensors"))
      .def(
          "density",
          [](Session& session, const NamedShapes& tensors) {
            const Layout layout = layout_of(tensors);
            const py::gil_scoped_release release;
            return session.density(layout);
          },
          py::arg("tensors"))
      .def("save", &save)
      .def("load", &load, py::arg("values"), py::arg("step"))
      .def("totals", &totals_of)
      .def("idle", &Session::idle)
      .def("abandon",  // never destroyed, and so never waited for
           [](std::shared_ptr<Session> session) {
             static_cast<void>(new std::shared_ptr<Session>(std::move(session)));
           })
      .def("close", &Session::close, WithoutGil());
  m.def(
      "register_hook",
      [](const std::shared_ptr<c10d::Reducer>& reducer, std::shared_ptr<Session> session,
         const std::vector<std::pair<std::string, at::Tensor>>& parameters,
         const std::string& node) {
        const Group group = node.empty() ? Group() : c10d::resolve_process_group(node);
        reducer->register_comm_hook(make_hook(std::move(session), parameters, group));
      },
      py::arg("reducer"), py::arg("session"), py::arg("parameters"), py::arg("node"));
}

py::list catalog() {
  py::list list;
  for (const Scheme& scheme : schemes())
    list.append(py::dict(py::arg("name") = std::string(scheme.name),
                         py::arg("exchange") = std::string(scheme.exchange),
                         py::arg("memory") = std::string(scheme.memory),
                         py::arg("compressor") = std::string(scheme.compressor),
                         py::arg("collective") = std::string(scheme.collective),
                         py::arg("schedule") = std::string(scheme.schedule),
                         py::arg("summary") = std::string(scheme.summary)));
  return list;
}

}  // namespace
}  // namespace topknot::python

PYBIND11_MODULE(_core, m) {
  using namespace topknot::python;
  bind_errors(m);
  bind_session(m);
  m.def("catalog", &catalog);
  m.def(
      "why_on_the_host",
      [](const py::dict& options) {
        return topknot::engine::why_on_the_host(options_of(options));
      },
      py::arg("options"));
  m.def("options", &options);
  m.def("split", &split_of, py::arg("budget"), py::arg("density"),
        py::arg("local_steps"));
  m.def("collective_with", &collective_with, py::arg("scheme"), py::arg("collective"),
        py::arg("values"));
  m.def("memory_of", &memory_of, py::arg("scheme"));
  m.def("advise", &advise, py::arg("params"), py::arg("compute"), py::arg("workers"),
        py::arg("gbps"), py::arg("latency"), py::arg("density"), py::arg("schemes"),
        py::arg("simulated"));
  m.def("amx_is_refused", &amx_is_refused);
  m.def("say_at_sigill", &say_at_sigill, py::arg("sentence"));
  m.attr("WIRE_VERSION") = static_cast<int>(topknot::core::kWireVersion);
}
