// warpgroup: one product of 64 pixels by TILE_M channels, both operands in shared memory (wgmma).

// An operand's beginning, in units of 16 bytes, and how many units on the second 16 bytes of its rows begin. Rows follow
// each other by a unit (the layout without swizzle), so an operand may begin at any of them.
__device__ __forceinline__ unsigned operand(const uint4 *at, unsigned second)
{
    return (unsigned)__cvta_generic_to_shared(at) / 16 | second << 16;
}

#if OPERANDS == OPERANDS_TF32
#define SHAPE(columns) "m64n" #columns "k8.f32.tf32.tf32"
#define TRANSPOSED
#elif OPERANDS == OPERANDS_BF16
#define SHAPE(columns) "m64n" #columns "k16.f32.bf16.bf16"
#define TRANSPOSED ", 0, 0"
#else
#define SHAPE(columns) "m64n" #columns "k16.f32.f16.f16"
#define TRANSPOSED ", 0, 0"
#endif

// PTX names each register: the lists for n columns are those for fewer, and what is added.
#define NAMES_8 "%0, %1, %2, %3"
#define NAMES_16 NAMES_8 ", %4, %5, %6, %7"
#define NAMES_24 NAMES_16 ", %8, %9, %10, %11"
#define NAMES_32 NAMES_24 ", %12, %13, %14, %15"
#define NAMES_40 NAMES_32 ", %16, %17, %18, %19"
#define NAMES_48 NAMES_40 ", %20, %21, %22, %23"
#define NAMES_56 NAMES_48 ", %24, %25, %26, %27"
#define NAMES_64 NAMES_56 ", %28, %29, %30, %31"
#define NAMES_80 NAMES_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NAMES_96 NAMES_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_112 NAMES_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define NAMES_128 NAMES_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_160 NAMES_128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define NAMES_192 NAMES_160 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_224 NAMES_192 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define NAMES_256 NAMES_224 ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define LIST_8 S(0), S(1), S(2), S(3)
#define LIST_16 LIST_8, S(4), S(5), S(6), S(7)
#define LIST_24 LIST_16, S(8), S(9), S(10), S(11)
#define LIST_32 LIST_24, S(12), S(13), S(14), S(15)
#define LIST_40 LIST_32, S(16), S(17), S(18), S(19)
#define LIST_48 LIST_40, S(20), S(21), S(22), S(23)
#define LIST_56 LIST_48, S(24), S(25), S(26), S(27)
#define LIST_64 LIST_56, S(28), S(29), S(30), S(31)
#define LIST_80 LIST_64, S(32), S(33), S(34), S(35), S(36), S(37), S(38), S(39)
#define LIST_96 LIST_80, S(40), S(41), S(42), S(43), S(44), S(45), S(46), S(47)
#define LIST_112 LIST_96, S(48), S(49), S(50), S(51), S(52), S(53), S(54), S(55)
#define LIST_128 LIST_112, S(56), S(57), S(58), S(59), S(60), S(61), S(62), S(63)
#define LIST_160 LIST_128, S(64), S(65), S(66), S(67), S(68), S(69), S(70), S(71), S(72), S(73), S(74), S(75), S(76), S(77), \
    S(78), S(79)
#define LIST_192 LIST_160, S(80), S(81), S(82), S(83), S(84), S(85), S(86), S(87), S(88), S(89), S(90), S(91), S(92), S(93), \
    S(94), S(95)
#define LIST_224 LIST_192, S(96), S(97), S(98), S(99), S(100), S(101), S(102), S(103), S(104), S(105), S(106), S(107), S(108), \
    S(109), S(110), S(111)
#define LIST_256 LIST_224, S(112), S(113), S(114), S(115), S(116), S(117), S(118), S(119), S(120), S(121), S(122), S(123), \
    S(124), S(125), S(126), S(127)
#define FACTORS_8 "%4, %5"
#define FACTORS_16 "%8, %9"
#define FACTORS_24 "%12, %13"
#define FACTORS_32 "%16, %17"
#define FACTORS_40 "%20, %21"
#define FACTORS_48 "%24, %25"
#define FACTORS_56 "%28, %29"
#define FACTORS_64 "%32, %33"
#define FACTORS_80 "%40, %41"
#define FACTORS_96 "%48, %49"
#define FACTORS_112 "%56, %57"
#define FACTORS_128 "%64, %65"
#define FACTORS_160 "%80, %81"
#define FACTORS_192 "%96, %97"
#define FACTORS_224 "%112, %113"
#define FACTORS_256 "%128, %129"
#define ADD_8 "%6"
#define ADD_16 "%10"
#define ADD_24 "%14"
#define ADD_32 "%18"
#define ADD_40 "%22"
#define ADD_48 "%26"
#define ADD_56 "%30"
#define ADD_64 "%34"
#define ADD_80 "%42"
#define ADD_96 "%50"
#define ADD_112 "%58"
#define ADD_128 "%66"
#define ADD_160 "%82"
#define ADD_192 "%98"
#define ADD_224 "%114"
#define ADD_256 "%130"
#define S(i) "+f"(sums[i])
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if TILE_M * SHIFTS == 8
#define PRODUCT_COLUMNS 8
#elif TILE_M * SHIFTS == 16
#define PRODUCT_COLUMNS 16
#elif TILE_M * SHIFTS == 24
#define PRODUCT_COLUMNS 24
#elif TILE_M * SHIFTS == 32
#define PRODUCT_COLUMNS 32
#elif TILE_M * SHIFTS == 40
#define PRODUCT_COLUMNS 40
#elif TILE_M * SHIFTS == 48
#define PRODUCT_COLUMNS 48
#elif TILE_M * SHIFTS == 56
#define PRODUCT_COLUMNS 56
#elif TILE_M * SHIFTS == 64
#define PRODUCT_COLUMNS 64
#elif TILE_M * SHIFTS == 80
#define PRODUCT_COLUMNS 80
#elif TILE_M * SHIFTS == 96
#define PRODUCT_COLUMNS 96
#elif TILE_M * SHIFTS == 112
#define PRODUCT_COLUMNS 112
#elif TILE_M * SHIFTS == 128
#define PRODUCT_COLUMNS 128
#elif TILE_M * SHIFTS == 160
#define PRODUCT_COLUMNS 160
#elif TILE_M * SHIFTS == 192
#define PRODUCT_COLUMNS 192
#elif TILE_M * SHIFTS == 224
#define PRODUCT_COLUMNS 224
#elif TILE_M * SHIFTS == 256
#define PRODUCT_COLUMNS 256
#endif
#define FOR_TILE(list) JOIN(list, PRODUCT_COLUMNS)
#define SHAPE_OF(columns) SHAPE(columns)
#define PRODUCT "wgmma.mma_async.sync.aligned." SHAPE_OF(PRODUCT_COLUMNS)

// Ask for sums = a * b, or sums += a * b; they are there after WARPGROUP_WAIT.
__device__ __forceinline__ void multiply_add(float *sums, unsigned a, unsigned b, int add)
{
    const unsigned long long eight_rows = 8ull << 32;   // units from eight rows to the next
    asm volatile("{.reg .pred add; setp.ne.b32 add, " FOR_TILE(ADD_) ", 0; " PRODUCT
                 " {" FOR_TILE(NAMES_) "}, " FOR_TILE(FACTORS_) ", add, 1, 1" TRANSPOSED ";}"
                 : FOR_TILE(LIST_) : "l"(eight_rows | a), "l"(eight_rows | b), "r"(add));
}
