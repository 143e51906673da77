// direct: a thread sums one output element at a time, straight from global memory. The place to start.
//
// Thread -> output, by GRID_LAYOUT (conv2: M=16 channels of 26x26 = 676 pixels):
//   B,M,1  block (b, m) owns one channel of one image, 676 outputs: 1 round of 1024x1, or 1 of 32x32 with 348 idle
//   B,1,1  block b owns one image; a thread loops over the M channels of its pixel, 16 outputs
//   giant  threads tile one giant image of B*H_out rows and M*W_out columns: 260,000 x 416 at B=10,000
// A flat block (BLOCK_Y = 1) counts pixels along the rows; any other steps by BLOCK_X columns and BLOCK_Y rows.
//
// Parameters
//   BLOCK_SHAPE  threads of a block      CONST_K, CONST_M, CONST_SIZES  K, M, and C H W known to the compiler
//   GRID_LAYOUT  see above               UNROLL      filter terms unrolled: 1, 2, a filter row, the whole filter
//   ACCUMULATE   sum in a register, or add each term to y in global memory
//   WEIGHTS      read w from global or constant memory
// Constraints, sizes and launch: in direct.py.

#if WEIGHTS == WEIGHTS_CONSTANT
WEIGHTS_IN_CONSTANT(WEIGHT_WORDS)
#define W_SPACE CONSTANT
#define W_BASE CONSTANT_WEIGHTS(w)
#else
#define W_SPACE GLOBAL
#define W_BASE w
#endif

// Sum the C*K*K products of one output: x points at its patch's corner, w at its channel's filter, y at itself.
__device__ __forceinline__ void sum_output(GLOBAL const float *x, W_SPACE const float *w, GLOBAL float *y,
                                           int C, int H, int W, int K)
{
#if ACCUMULATE == ACCUMULATE_GLOBAL
    GLOBAL volatile float *total = y;   // volatile: each of the C*K*K additions goes to memory
#else
    float in_register;
    float *total = &in_register;
#endif
    *total = 0.0f;
    for (int c = 0; c < C; c++)
        UNROLLED(ROWS_UNROLLED)
        for (int p = 0; p < K; p++)
            UNROLLED(TERMS_UNROLLED)
            for (int q = 0; q < K; q++)
                *total = fmaf(x[(c * H + p) * W + q], w[(c * K + p) * K + q], *total);
#if ACCUMULATE == ACCUMULATE_REGISTER
    *y = in_register;
#endif
}

__global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
conv_forward(GLOBAL const float *__restrict__ x, W_SPACE const float *__restrict__ w, GLOBAL float *__restrict__ y,
             int B, int C_arg, int H_arg, int W_arg, int M_arg, int K_arg)
{
    const int C = CONST_SIZES ? LAYER_C : C_arg;
    const int H = CONST_SIZES ? LAYER_H : H_arg;
    const int W = CONST_SIZES ? LAYER_W : W_arg;
    const int M = CONST_M ? LAYER_M : M_arg;
    const int K = CONST_K ? LAYER_K : K_arg;
    const int H_out = H - K + 1;
    const int W_out = W - K + 1;

#if GRID_LAYOUT == GRID_LAYOUT_GIANT
    const int column = blockIdx.x * BLOCK_X + threadIdx.x;   // m and w
    const int m = column / W_out;
    const int w_out = column % W_out;
    if (m < M)   // the grid has at most 65,535 rows of blocks: each strides over the B*H_out rows
        for (int row = blockIdx.y * BLOCK_Y + threadIdx.y; row < B * H_out; row += gridDim.y * BLOCK_Y) {
            const int b = row / H_out;
            const int h_out = row % H_out;
            sum_output(x + (size_t)b * C * H * W + h_out * W + w_out, W_BASE + m * C * K * K,
                       y + (((size_t)b * M + m) * H_out + h_out) * W_out + w_out, C, H, W, K);
        }
#else
    x += (size_t)blockIdx.x * C * H * W;
    y += (size_t)blockIdx.x * M * H_out * W_out;
    const int m_first = GRID_LAYOUT == GRID_LAYOUT_B_M_1 ? blockIdx.y : 0;
    const int m_end = GRID_LAYOUT == GRID_LAYOUT_B_M_1 ? blockIdx.y + 1 : M;
#if BLOCK_Y == 1
    for (int pixel = threadIdx.x; pixel < H_out * W_out; pixel += BLOCK_X) {
        const int h_out = pixel / W_out;
        const int w_out = pixel % W_out;
#else
    for (int h_out = threadIdx.y; h_out < H_out; h_out += BLOCK_Y)
    for (int w_out = threadIdx.x; w_out < W_out; w_out += BLOCK_X) {
#endif
        for (int m = m_first; m < m_end; m++)
            sum_output(x + h_out * W + w_out, W_BASE + m * C * K * K, y + (m * H_out + h_out) * W_out + w_out, C, H, W, K);
    }
#endif
}
