// SPDX-License-Identifier: Apache-2.0
//
// Topknot in a training loop of one's own on libtorch: four ranks, here threads, learn the
// sum of their inputs. Between the two marks is all that is added before the loop; with
// topknot::make_mpi() the same runs on many machines. Backward says when a gradient is complete,
// so that the last layers are exchanged while it goes on with the first.
#include <topknot/topknot.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

namespace {

using Accumulator = decltype(torch::autograd::impl::grad_accumulator(torch::Tensor()));
using torch::autograd::variable_list;

/// Gradients live in the engine's memory, and autograd calls ready(). Keep what is returned:
/// autograd forgets hooks whose accumulator nobody holds.
std::vector<Accumulator> tie(const std::vector<torch::Tensor>& weights,
                             topknot::Engine& engine) {
  std::vector<Accumulator> accumulators;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i].mutable_grad() =
        torch::from_blob(engine.gradient(i).data(), weights[i].sizes());
    accumulators.push_back(torch::autograd::impl::grad_accumulator(weights[i]));
    accumulators.back()->add_post_hook(
        std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [&engine, i](const variable_list& outputs, const variable_list&) {
              engine.ready(i);
              return outputs;
            }));
  }
  return accumulators;
}

struct Outcome {
  double loss = 0;    ///< of the last step
  double hidden = 0;  ///< share of the exchange's time that backward went on in
};

Outcome train(topknot::Transport& link) {
  torch::nn::Sequential model(torch::nn::Linear(64, 64), torch::nn::Linear(64, 1));
  const std::vector<torch::Tensor> weights = model->parameters();
  auto alike = at::make_generator<at::CPUGeneratorImpl>(1);  // on all ranks
  for (const torch::Tensor& weight : weights) weight.data().normal_(0, 0.1, alike);
  torch::optim::SGD optimizer(weights, torch::optim::SGDOptions(0.005));

  // ---- topknot
  topknot::Layout layout;
  for (const auto& one : model->named_parameters())
    layout.tensors.push_back({one.key(), 0, {one->sizes().begin(), one->sizes().end()}});
  topknot::Engine engine(link, layout,
                         {.scheme = "knot", .density = 0.1, .bucket_bytes = 4096});
  const std::vector<Accumulator> accumulators = tie(weights, engine);
  // ----

  auto draws = at::make_generator<at::CPUGeneratorImpl>(link.rank() + 1);
  constexpr int kSteps = 400;
  Outcome outcome;
  for (int step = 0; step < kSteps; ++step) {
    const torch::Tensor inputs = torch::randn({32, 64}, draws);
    engine.begin();  // instead of optimizer.zero_grad()
    const torch::Tensor loss =
        torch::mse_loss(model->forward(inputs), inputs.sum(1, true));
    loss.backward();  // buckets set out as their gradients are ready
    const topknot::StepReport report = engine.finish();
    if (report.finite) optimizer.step();  // every rank has the same mean gradient
    outcome.loss = loss.item<double>();
    outcome.hidden += report.overlap / kSteps;
  }
  return outcome;
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  const auto links = topknot::make_inproc(4);
  std::vector<Outcome> outcomes(links.size());
  std::vector<std::thread> ranks;
  for (std::size_t i = 0; i < links.size(); ++i)
    ranks.emplace_back([&, i] { outcomes[i] = train(*links[i]); });
  for (std::thread& rank : ranks) rank.join();
  std::printf("loss %.6f, %.0f %% of the exchange hidden\n", outcomes[0].loss,
              100 * outcomes[0].hidden);
  return outcomes[0].loss < 1 && outcomes[0].hidden > 0 ? 0 : 1;  // 64 at the start
}
