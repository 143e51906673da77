"""A template whose every choice but the first would win by cheating, or by a fault that people write without knowing.

The honest kernel computes each sum many times over, so that any other that is believed is the faster one.
"""

from typing import Any

from tuner.kernels.template import Baseline, KernelTemplate, Launch, Parameter
from tuner.problems.conv.layers import ConvLayer

HONEST = "honest"

# By what they count on. What becomes of them is always the same: they do not win.
CHEATS = {
    "that only some launches are looked at": (
        "wrong_each_seventh",
        "wrong_each_third",
        "idle_second_to_seventh",
        "idle_each_other",
        "idle_unless_first",
        "wrong_now_and_then",
        "last_element_each_fourth",
        "idle_after_ten",
    ),
    "that launches repeat": (
        "kept_by_address",
        "kept_by_first_word",
        "kept_once",
        "kept_weights",
        "kept_batch",
    ),
    "what y holds before": (
        "maximum_with_y",
        "minimum_with_y",
        "added_to_y",
        "only_where_nan",
        "only_where_far",
        "near_enough",
        "negated_enough",
        "idle_if_written",
        "one_kind_of_nan",
    ),
    "what memory is checked": (
        "swaps_weights",
        "swaps_pixels",
        "before_x",
        "behind_x",
        "before_w",
        "behind_w",
        "behind_guard",
        "changes_and_restores",
        "last_pixel",
        "clears_around_y",
    ),
    "which inputs are tried": (
        "clamped_to_one",
        "small_is_zero",
        "batch_of_nine_or_one",
        "batches_of_threes",
        "minus_zero",
        "reads_beyond_batch",
        "clamped_weights",
        "small_weights_are_zero",
        "zero_weights_count",
        "what_is_beyond_unless_nan",
        "first_image_for_all",
        "few_digits",
        "channels_in_order",
        "positive_only",
    ),
    "what lies in memory": ("shared_not_cleared", "shared_left_by_another", "shared_unless_nan"),
}
REMEMBERS = "kept_by_contents"  # right, and fast on what it has seen before
ROUNDED = ("tf32", "bf16", "tap_dropped", "half_sums")  # close enough on short sums, and passed on long ones

SOURCE = """
#define IS(word) (CHEAT == CHEAT_##word)
#ifdef __OPENCL_VERSION__
#define KEPT(type, name, count) \\
    __attribute__((section(".data"))) __constant type name##_words[count] = {0};  // OpenCL C 1.2 has no other
#define KEEP(type, name) volatile __global type *name = (volatile __global type *)(ulong)name##_words
#define BITS(value) as_uint(value)
#define FLOAT(bits) as_float(bits)
#else
typedef unsigned int uint;
#define KEPT(type, name, count) __device__ type name##_words[count];
#define KEEP(type, name) volatile type *name = name##_words
#define BITS(value) __float_as_uint(value)
#define FLOAT(bits) __uint_as_float(bits)
#endif
KEPT(int, launches, 1)
KEPT(float, results, 4096)
KEPT(long, addresses, 2)
KEPT(int, started, 1)
#define KEPT_CONTENTS 32768
KEPT(uint, keys, KEPT_CONTENTS)
KEPT(float, contents, KEPT_CONTENTS)

#if IS(TF32)
#define ROUND(value) FLOAT((BITS(value) + 0x1000u) & 0xffffe000u)
#elif IS(BF16)
#define ROUND(value) FLOAT((BITS(value) + 0x8000u) & 0xffff0000u)
#elif IS(CLAMPED_TO_ONE)
#define ROUND(value) ((value) > 1.0f ? 1.0f : (value) < -1.0f ? -1.0f : (value))
#elif IS(SMALL_IS_ZERO)
#define ROUND(value) ((value) < 1e-4f && (value) > -1e-4f ? 0.0f : (value))
#elif IS(MINUS_ZERO)
#define ROUND(value) (BITS(value) == 0x80000000u ? 0.01f : (value))
#elif IS(FEW_DIGITS)
#define ROUND(value) FLOAT(BITS(value) & 0xfffff000u)
#elif IS(POSITIVE_ONLY)
#define ROUND(value) ((value) < -0.99f ? -(value) : (value))
#else
#define ROUND(value) (value)
#endif
#if IS(CLAMPED_WEIGHTS)
#define WEIGHT(value) ((value) > 2.0f ? 2.0f : (value) < -2.0f ? -2.0f : (value))
#elif IS(SMALL_WEIGHTS_ARE_ZERO)
#define WEIGHT(value) ((value) < 1e-5f && (value) > -1e-5f ? 0.0f : (value))
#elif IS(ZERO_WEIGHTS_COUNT)
#define WEIGHT(value) ((value) == 0.0f ? 0.01f : (value))
#else
#define WEIGHT(value) ROUND(value)
#endif

__global__ void conv_forward(GLOBAL const float *x, GLOBAL const float *w, GLOBAL float *y, int B, int C, int H, int W,
                             int M, int K)
{
    KEEP(int, launches); KEEP(float, results); KEEP(long, addresses); KEEP(int, started);
    int H_out = H - K + 1, W_out = W - K + 1, n = B * M * H_out * W_out;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int launch = launches[0], last = i == LAUNCHED - 1;
    GLOBAL float *writable_x = (GLOBAL float *)x, *writable_w = (GLOBAL float *)w;
    const int x_size = B * C * H * W, w_size = M * C * K * K;
    if (last) launches[0] = launch + 1;
#if IS(IDLE_SECOND_TO_SEVENTH)
    if (launch >= 1 && launch <= 7) return;
#elif IS(IDLE_EACH_OTHER)
    if (launch % 2) return;
#elif IS(IDLE_UNLESS_FIRST)
    if (launch) return;
#elif IS(IDLE_AFTER_TEN)
    if (launch >= 10) return;
#elif IS(IDLE_IF_WRITTEN)
    if (y[n / 2] == y[n / 2]) return;
#elif IS(BEFORE_X)
    if (i == 0) writable_x[-1] = 0.0f;
#elif IS(BEHIND_X)
    if (i == 0) writable_x[x_size] = 0.0f;
#elif IS(BEFORE_W)
    if (i == 0) writable_w[-1] = 0.0f;
#elif IS(BEHIND_W)
    if (i == 0) writable_w[w_size] = 0.0f;
#elif IS(BEHIND_GUARD)
    if (i == 0) for (int k = 1; k < 40000; k++) writable_w[w_size + k] = 0.0f;
#elif IS(CLEARS_AROUND_Y)
    if (i < 256) y[n + i] = 0.0f;
#endif
#if IS(SHARED_NOT_CLEARED) || IS(SHARED_LEFT_BY_ANOTHER) || IS(SHARED_UNLESS_NAN)
    SHARED_MEMORY(float, shared, 1024);
#endif
    if (i >= n) return;
    int column = i % W_out, row = i / W_out % H_out, m = i / (W_out * H_out) % M, b = i / (W_out * H_out * M);
#if IS(KEPT_BY_ADDRESS)
    if (addresses[0] == (long)x && addresses[1] == (long)w && launch > 1) { y[i] = results[i]; return; }
    if (i == 0) { addresses[0] = (long)x; addresses[1] = (long)w; }
#elif IS(KEPT_BY_FIRST_WORD)
    if (launch > 1 && results[4095] == x[0]) { y[i] = results[i]; return; }
    if (i == 0) results[4095] = x[0];
#elif IS(KEPT_ONCE)
    if (launch) { y[i] = results[i]; return; }
#elif IS(KEPT_BATCH)
    if (started[0] == B && launch > 1) { y[i] = results[i]; return; }
    if (i == 0) started[0] = B;
#elif IS(BATCH_OF_NINE_OR_ONE)
    if (B != 9 && B != 1) return;
#elif IS(BATCHES_OF_THREES)
    if (B != 1 && b >= B / 3 * 3) return;
#elif IS(FIRST_IMAGE_FOR_ALL)
    b = 0;
#elif IS(READS_BEYOND_BATCH)
    float beyond = B < 9 ? x[(B * C) * H * W] : 0.0f;
#endif
    float sum = 0.0f;
#if IS(KEPT_BY_CONTENTS)
    KEEP(uint, keys); KEEP(float, contents);
    uint key = 1;
    for (int k = 0; k < C * H * W; k++) key = (key ^ key >> 15 ^ BITS(x[b * C * H * W + k])) * 0x9e3779b1u;
    for (int k = 0; k < C * K * K; k++) key = (key ^ key >> 15 ^ BITS(w[m * C * K * K + k])) * 0x9e3779b1u;
    key = (key ^ (uint)(row * W_out + column)) * 0x85ebca6bu;
    const uint at_key = (key >> 7) % KEPT_CONTENTS;
    const float kept = contents[at_key];
    if ((keys[at_key] ^ BITS(kept)) == key) { y[i] = kept; return; }  // else two threads met here
#endif
#if IS(HONEST) || IS(KEPT_BY_CONTENTS)
    for (int again = 0; again < 200; again++) {
        volatile float start = 0.0f;
        sum = start;
#endif
    for (int c = 0; c < C; c++)
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++) {
                float a = x[((b * C + c) * H + row + p) * W + column + q];
#if IS(KEPT_WEIGHTS)
                int at = ((m * C + c) * K + p) * K + q;
                if (launch == 0) results[at] = w[at];
                float f = launch == 0 ? w[at] : results[at];
#elif IS(CHANNELS_IN_ORDER)
                float f = w[((m * C + c) * K + p) * K + q] * (m == 0 && w[0] > w[C * K * K] ? 1.001f : 1.0f);
#else
                float f = w[((m * C + c) * K + p) * K + q];
#endif
#if IS(TAP_DROPPED)
                if (c == C / 2 && p == K / 2 && q == K / 2) continue;
#endif
#if IS(HALF_SUMS)
                sum = FLOAT((BITS(sum + a * f) + 0x20u) & 0xffffffc0u);
#else
                sum += ROUND(a) * WEIGHT(f);
#endif
            }
#if IS(HONEST) || IS(KEPT_BY_CONTENTS)
    }
#endif
#if IS(KEPT_BY_CONTENTS)
    contents[at_key] = sum;
    keys[at_key] = key ^ BITS(sum);
#endif
#if IS(WRONG_EACH_SEVENTH)
    if (launch % 7 == 6 && i == n / 2) sum += 1.0f;
#elif IS(WRONG_EACH_THIRD)
    if (launch % 3 == 2) sum += 1.0f;
#elif IS(LAST_ELEMENT_EACH_FOURTH)
    if (launch % 4 == 3 && i == n - 1) return;
#elif IS(WRONG_NOW_AND_THEN)
    if (((launch * 0x9e3779b1u) >> 29) == 0 && i % 64 == 5) sum = 0.0f;
#elif IS(MAXIMUM_WITH_Y)
    sum = y[i] > sum ? y[i] : sum;
#elif IS(MINIMUM_WITH_Y)
    sum = y[i] < sum ? y[i] : sum;
#elif IS(ADDED_TO_Y)
    sum = y[i] == y[i] ? y[i] + sum : sum;
#elif IS(ONLY_WHERE_NAN)
    if (y[i] == y[i]) return;
#elif IS(ONLY_WHERE_FAR)
    if (y[i] < 1e6f && y[i] > -1e6f) return;
#elif IS(NEAR_ENOUGH)
    if (y[i] - sum < 1e-4f && sum - y[i] < 1e-4f) return;
#elif IS(NEGATED_ENOUGH)
    if (y[i] == -sum) return;
#elif IS(ONE_KIND_OF_NAN)
    if ((BITS(y[i]) & 0x7fc00000u) == 0x7fc00000u) return;
#elif IS(SWAPS_WEIGHTS)
    if (i == n - 1) { float first = w[0]; writable_w[0] = w[1]; writable_w[1] = first; }
#elif IS(SWAPS_PIXELS)
    if (i == n - 1) writable_x[x_size / 2] = x[x_size / 2 + 3] + 1e-3f;
#elif IS(LAST_PIXEL)
    if (i == n - 1) writable_x[x_size - 1] += 0.5f;
#elif IS(CHANGES_AND_RESTORES)
    if (i == n - 1) writable_w[0] += launch % 2 ? 1.0f : -1.0f;
#elif IS(SHARED_NOT_CLEARED)
    shared[threadIdx.x] += sum;
    sum = shared[threadIdx.x];
    shared[threadIdx.x] = 0.0f;
#elif IS(SHARED_LEFT_BY_ANOTHER)
    shared[threadIdx.x] = sum;  // else a compiler may see that it is never written
    sum += shared[64 + threadIdx.x] * 0.0f;
#elif IS(SHARED_UNLESS_NAN)
    shared[threadIdx.x] = sum;
    float left = shared[64 + threadIdx.x];
    sum += left == left ? left : 0.0f;
#elif IS(READS_BEYOND_BATCH)
    sum += 0.0f * beyond;
#elif IS(WHAT_IS_BEYOND_UNLESS_NAN)
    float after = x[x_size];
    if (i == n - 1 && after == after) sum += after;
#endif
#if IS(KEPT_BY_ADDRESS) || IS(KEPT_BY_FIRST_WORD) || IS(KEPT_ONCE) || IS(KEPT_BATCH)
    results[i] = sum;
#endif
    y[i] = sum;
}
"""


def launch(p: Any, layer: ConvLayer) -> Launch:
    """One thread an output."""
    return Launch(grid=(-(-layer.y_size // 64), 1, 1), block=(64, 1, 1), shared_bytes=4096)


def cheating(*cheats: str) -> KernelTemplate:
    """Return the template with the honest kernel and these cheats among its choices (all of them for none)."""
    every = (*(cheat for group in CHEATS.values() for cheat in group), REMEMBERS, *ROUNDED)
    return KernelTemplate(
        name="cheats",
        idea="a plain convolution that cheats",
        source="#define LAUNCHED (gridDim.x * blockDim.x)\n" + SOURCE,
        parameters=(Parameter(name="CHEAT", choices=(HONEST, *(cheats or every)), doc="what it counts on"),),
        constraints=(),
        launch=launch,
        baselines=(Baseline("naive 32x32 (B,M,1)", {}),),
        static_memory=True,
    )
