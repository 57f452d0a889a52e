#include "warp.h"

#include <algorithm>
#include <climits>

namespace astra {
namespace {

// A fragment may spin on what a fragment further on would do (a lock): after so many turns without
// a join, fragments take turns. The hardware promises progress to every thread too (Volta and later).
constexpr std::uint64_t kPatience = 20'000;

bool can_join(const Fragment& a, const Fragment& b) {
  return a.pc == b.pc && a.state != State::AtBarrier && b.state != State::AtBarrier;
}

}  // namespace

void Warp::join() {
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    for (std::size_t j = i + 1; j < fragments.size();) {
      if (!can_join(fragments[i], fragments[j])) {
        ++j;
        continue;
      }
      fragments[i].mask |= fragments[j].mask;
      fragments[i].state = State::Ready;
      fragments.erase(fragments.begin() + std::ptrdiff_t(j));
      since_join = 0;
    }
  }
}

// Lets those go that wait for lanes which have come, or ended. A warp barrier lets lanes meet from
// different places; every other instruction needs them in one fragment.
bool Warp::release_meeting(const Instruction* code) {
  Mask at_barrier = 0;
  for (const Fragment& f : fragments)
    if (f.state == State::Meeting && code[f.pc].handler == Handler::warp_barrier) at_barrier |= f.mask;
  bool released = false;
  for (Fragment& f : fragments) {
    if (f.state != State::Meeting) continue;
    bool barrier = code[f.pc].handler == Handler::warp_barrier;
    Mask present = barrier ? at_barrier : f.mask;
    if (f.members & alive & ~present) continue;
    f.state = State::Ready;
    if (barrier) {
      ++f.pc;
      met.push_back(f.members & at_barrier);
    }
    released = true;
  }
  return released;
}

Fragment* Warp::choose(const Instruction* code) {
  if (fragments.size() > 1) join();
  do {
    Fragment* best = nullptr;
    const bool fair = polled || since_join > kPatience;
    for (Fragment& f : fragments) {
      if (f.state != State::Ready) continue;
      if (!best || (fair ? f.last_run < best->last_run : f.pc < best->pc)) best = &f;
    }
    if (best) {
      polled = false;
      best->last_run = ++run_count;
      ++since_join;
      return best;
    }
  } while (release_meeting(code));
  return nullptr;
}

int Warp::stop_before(const Fragment& chosen) const {
  int stop = INT_MAX;
  for (const Fragment& f : fragments)
    if (&f != &chosen && f.state != State::AtBarrier && f.pc > chosen.pc) stop = std::min(stop, f.pc);
  return stop;
}

bool Warp::others_ready(const Fragment& chosen) const {
  return std::any_of(fragments.begin(), fragments.end(), [&](const Fragment& f) {
    return &f != &chosen && f.state == State::Ready;
  });
}

void Warp::split(Fragment& fragment, Mask leaving, int pc) {
  fragment.mask &= ~leaving;
  Fragment other{pc, leaving};
  other.last_run = fragment.last_run;
  fragments.push_back(other);
}

void Warp::retire(Mask lanes) {
  alive &= ~lanes;
  for (Fragment& f : fragments) f.mask &= ~lanes;
  fragments.erase(std::remove_if(fragments.begin(), fragments.end(),
                                 [](const Fragment& f) { return f.mask == 0; }),
                  fragments.end());
}

}  // namespace astra
