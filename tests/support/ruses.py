"""A second template of cheats: these keep nothing, and count on what one launch on a bench has in common with the next.

What is around the buffers and in them, where they lie, in which order threads run, and which batches there are. As in
``cheats``, the honest kernel computes each sum many times over, so that any other that is believed is the faster one.
"""

from typing import Any

from tuner.kernels.template import Baseline, KernelTemplate, Launch, Parameter
from tuner.problems.conv.layers import ConvLayer

HONEST = "honest"

# What becomes of them is always the same: they do not win.
RUSES = (
    "what_is_before_unless_nan",
    "wrong_between_numbers",
    "wrong_unless_page_aligned",
    "idle_where_zero",
    "idle_where_likely",
    "idle_where_alike",
    "block_before_is_done",
    "barrier_missing_down",
    "batches_of_a_rest",
)
ON_CPU = (  # where pages tell who strays, and the order of threads can be turned round
    "barrier_missing_up",
    "writes_far_behind_y",
    "reads_far_behind_w",
    "kept_far_before_x",
    "changes_x_meanwhile",
)
ON_CUDA = ("kept_on_the_heap",)

HEAD = """
#define LAUNCHED (gridDim.x * blockDim.x)
#define MANY 400  // launches, more than there are
"""
SOURCE = """
#define IS(word) (RUSE == RUSE_##word)
#ifdef __OPENCL_VERSION__
#define BITS(value) as_uint(value)
#else
typedef unsigned int uint;
typedef unsigned long ulong;
#define BITS(value) __float_as_uint(value)
#endif
#define MAGIC 0x5eed5eedu
#define NUMBER(value) ((value) < 1e6f && (value) > -1e6f)
#define AHEAD 24  // more than the neighbours that other threads may have written by now

__global__ void conv_forward(GLOBAL const float *x, GLOBAL const float *w, GLOBAL float *y, int B, int C, int H, int W,
                             int M, int K)
{
    int H_out = H - K + 1, W_out = W - K + 1, n = B * M * H_out * W_out;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int x_size = B * C * H * W, w_size = M * C * K * K;
    int wrong = 0;
#if IS(KEPT_FAR_BEFORE_X)
    volatile GLOBAL uint *kept = (volatile GLOBAL uint *)x - (18 << 10);  // beyond 64 KB, and what fills the page
    wrong = kept[0] == MAGIC && kept[1] > MANY;
    if (i == LAUNCHED - 1) { kept[1] = kept[0] == MAGIC ? kept[1] + 1 : 0; kept[0] = MAGIC; }
#elif IS(WRITES_FAR_BEHIND_Y)
    if (i == 0) y[n + (530 << 10)] = 0.0f;
#elif IS(READS_FAR_BEHIND_W)
    float far = 0.0f;
    if (i == 0) for (int k = 0; k < 1000; k++) far = fmax(far, w[w_size + (20 << 10) + k]);
    wrong = far > 1e30f;
#elif IS(IDLE_WHERE_LIKELY) || IS(IDLE_WHERE_ALIKE)
    int likely = i + AHEAD < n, alike = likely;
    for (int k = 0; k < AHEAD && i + AHEAD < n; k++) {
        likely &= NUMBER(y[i + k]);
        alike &= BITS(y[i + k]) == BITS(y[i]);
    }
    if (IS(IDLE_WHERE_LIKELY) ? likely : alike) return;
#elif IS(IDLE_WHERE_ZERO)
    if (i < n && y[i] == 0.0f) return;
#elif IS(WRONG_BETWEEN_NUMBERS)
    wrong = NUMBER(x[-1]) && NUMBER(x[x_size]);
#elif IS(WRONG_UNLESS_PAGE_ALIGNED)
    wrong = ((ulong)x & 4095) != 0 || ((ulong)y & 4095) != 0;
#elif IS(BATCHES_OF_A_REST)
    wrong = B % 4 == 2;
#elif IS(CHANGES_X_MEANWHILE)
    volatile GLOBAL float *changed = (volatile GLOBAL float *)x + x_size - 1;
    float before = 0.0f;
    if (i == n - 1) { before = *changed; *changed = 0.0f; }
#endif
#if IS(KEPT_ON_THE_HEAP)
    if (i == 0) {
        volatile uint *kept = (volatile uint *)malloc(64);
        kept[5] = kept[4] == MAGIC ? kept[5] + 1 : 0;
        kept[4] = MAGIC;
        wrong = kept[5] > MANY;
        free((void *)kept);
    }
#elif IS(BARRIER_MISSING_UP) || IS(BARRIER_MISSING_DOWN)
    SHARED_MEMORY(float, shared, 64);
#endif
    if (i >= n) return;
    int column = i % W_out, row = i / W_out % H_out, m = i / (W_out * H_out) % M, b = i / (W_out * H_out * M);
    float sum = 0.0f;
#if IS(HONEST)
    for (int again = 0; again < 30; again++) {
        volatile float start = 0.0f;
        sum = start;
#endif
    for (int c = 0; c < C; c++)
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++)
                sum += x[((b * C + c) * H + row + p) * W + column + q] * w[((m * C + c) * K + p) * K + q];
#if IS(HONEST)
    }
#endif
#if IS(WHAT_IS_BEFORE_UNLESS_NAN)
    float outside = x[-1];
    if (i == 0 && outside == outside) sum += outside;
#elif IS(BARRIER_MISSING_UP)
    shared[threadIdx.x] = sum;  // and no barrier
    if (threadIdx.x) y[i - 1] = shared[threadIdx.x - 1];
    if (threadIdx.x == 63 || i == n - 1) y[i] = sum;
    return;
#elif IS(BARRIER_MISSING_DOWN)
    shared[threadIdx.x] = sum;
    if (threadIdx.x < 63 && i < n - 1) y[i + 1] = shared[threadIdx.x + 1];
    if (threadIdx.x == 0) y[i] = sum;
    return;
#elif IS(BLOCK_BEFORE_IS_DONE)
    if (i >= 64 && !NUMBER(y[i - 64])) wrong = 1;
#elif IS(CHANGES_X_MEANWHILE)
    if (i == n - 1) {
        *changed = before;
        sum += before * w[w_size - 1];
    }
#endif
    if (wrong) sum += 1.0f;
    y[i] = sum;
}
"""


def launch(p: Any, layer: ConvLayer) -> Launch:
    """One thread an output."""
    return Launch(grid=(-(-layer.y_size // 64), 1, 1), block=(64, 1, 1), shared_bytes=4096)


def scheming(*ruses: str) -> KernelTemplate:
    """Return the template with the honest kernel and these ruses among its choices."""
    return KernelTemplate(
        name="ruses",
        idea="a plain convolution that knows the bench",
        source=HEAD + SOURCE,
        parameters=(Parameter(name="RUSE", choices=(HONEST, *ruses), doc="what it counts on"),),
        constraints=(),
        launch=launch,
        baselines=(Baseline("naive 32x32 (B,M,1)", {}),),
    )
