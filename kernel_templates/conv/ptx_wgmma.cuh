// Products of a warpgroup, four warps, both operands in shared memory; they run while threads go on (sm_90a alone).

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

// No use of a sum moves before the wait for it.
__device__ __forceinline__ void wgmma_arrived(float &sum) { asm volatile("" : "+f"(sum) :: "memory"); }

// PTX names each register: the lists for n columns are those for fewer, and what is added.
#define WGMMA_NAMES_8 "%0, %1, %2, %3"
#define WGMMA_NAMES_16 WGMMA_NAMES_8 ", %4, %5, %6, %7"
#define WGMMA_NAMES_24 WGMMA_NAMES_16 ", %8, %9, %10, %11"
#define WGMMA_NAMES_32 WGMMA_NAMES_24 ", %12, %13, %14, %15"
#define WGMMA_NAMES_40 WGMMA_NAMES_32 ", %16, %17, %18, %19"
#define WGMMA_NAMES_48 WGMMA_NAMES_40 ", %20, %21, %22, %23"
#define WGMMA_NAMES_56 WGMMA_NAMES_48 ", %24, %25, %26, %27"
#define WGMMA_NAMES_64 WGMMA_NAMES_56 ", %28, %29, %30, %31"
#define WGMMA_NAMES_80 WGMMA_NAMES_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_NAMES_96 WGMMA_NAMES_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NAMES_112 WGMMA_NAMES_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_NAMES_128 WGMMA_NAMES_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_160 WGMMA_NAMES_128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_NAMES_192 WGMMA_NAMES_160 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_NAMES_224 WGMMA_NAMES_192 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_NAMES_256 WGMMA_NAMES_224 ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_SUM(i) "+f"(sums[i])
#define WGMMA_SUMS_8 WGMMA_SUM(0), WGMMA_SUM(1), WGMMA_SUM(2), WGMMA_SUM(3)
#define WGMMA_SUMS_16 WGMMA_SUMS_8, WGMMA_SUM(4), WGMMA_SUM(5), WGMMA_SUM(6), WGMMA_SUM(7)
#define WGMMA_SUMS_24 WGMMA_SUMS_16, WGMMA_SUM(8), WGMMA_SUM(9), WGMMA_SUM(10), WGMMA_SUM(11)
#define WGMMA_SUMS_32 WGMMA_SUMS_24, WGMMA_SUM(12), WGMMA_SUM(13), WGMMA_SUM(14), WGMMA_SUM(15)
#define WGMMA_SUMS_40 WGMMA_SUMS_32, WGMMA_SUM(16), WGMMA_SUM(17), WGMMA_SUM(18), WGMMA_SUM(19)
#define WGMMA_SUMS_48 WGMMA_SUMS_40, WGMMA_SUM(20), WGMMA_SUM(21), WGMMA_SUM(22), WGMMA_SUM(23)
#define WGMMA_SUMS_56 WGMMA_SUMS_48, WGMMA_SUM(24), WGMMA_SUM(25), WGMMA_SUM(26), WGMMA_SUM(27)
#define WGMMA_SUMS_64 WGMMA_SUMS_56, WGMMA_SUM(28), WGMMA_SUM(29), WGMMA_SUM(30), WGMMA_SUM(31)
#define WGMMA_SUMS_80 WGMMA_SUMS_64, WGMMA_SUM(32), WGMMA_SUM(33), WGMMA_SUM(34), WGMMA_SUM(35), WGMMA_SUM(36), WGMMA_SUM(37), WGMMA_SUM(38), WGMMA_SUM(39)
#define WGMMA_SUMS_96 WGMMA_SUMS_80, WGMMA_SUM(40), WGMMA_SUM(41), WGMMA_SUM(42), WGMMA_SUM(43), WGMMA_SUM(44), WGMMA_SUM(45), WGMMA_SUM(46), WGMMA_SUM(47)
#define WGMMA_SUMS_112 WGMMA_SUMS_96, WGMMA_SUM(48), WGMMA_SUM(49), WGMMA_SUM(50), WGMMA_SUM(51), WGMMA_SUM(52), WGMMA_SUM(53), WGMMA_SUM(54), WGMMA_SUM(55)
#define WGMMA_SUMS_128 WGMMA_SUMS_112, WGMMA_SUM(56), WGMMA_SUM(57), WGMMA_SUM(58), WGMMA_SUM(59), WGMMA_SUM(60), WGMMA_SUM(61), WGMMA_SUM(62), WGMMA_SUM(63)
#define WGMMA_SUMS_160 WGMMA_SUMS_128, WGMMA_SUM(64), WGMMA_SUM(65), WGMMA_SUM(66), WGMMA_SUM(67), WGMMA_SUM(68), WGMMA_SUM(69), WGMMA_SUM(70), WGMMA_SUM(71), WGMMA_SUM(72), WGMMA_SUM(73), WGMMA_SUM(74), WGMMA_SUM(75), WGMMA_SUM(76), WGMMA_SUM(77), \
    WGMMA_SUM(78), WGMMA_SUM(79)
#define WGMMA_SUMS_192 WGMMA_SUMS_160, WGMMA_SUM(80), WGMMA_SUM(81), WGMMA_SUM(82), WGMMA_SUM(83), WGMMA_SUM(84), WGMMA_SUM(85), WGMMA_SUM(86), WGMMA_SUM(87), WGMMA_SUM(88), WGMMA_SUM(89), WGMMA_SUM(90), WGMMA_SUM(91), WGMMA_SUM(92), WGMMA_SUM(93), \
    WGMMA_SUM(94), WGMMA_SUM(95)
#define WGMMA_SUMS_224 WGMMA_SUMS_192, WGMMA_SUM(96), WGMMA_SUM(97), WGMMA_SUM(98), WGMMA_SUM(99), WGMMA_SUM(100), WGMMA_SUM(101), WGMMA_SUM(102), WGMMA_SUM(103), WGMMA_SUM(104), WGMMA_SUM(105), WGMMA_SUM(106), WGMMA_SUM(107), WGMMA_SUM(108), \
    WGMMA_SUM(109), WGMMA_SUM(110), WGMMA_SUM(111)
#define WGMMA_SUMS_256 WGMMA_SUMS_224, WGMMA_SUM(112), WGMMA_SUM(113), WGMMA_SUM(114), WGMMA_SUM(115), WGMMA_SUM(116), WGMMA_SUM(117), WGMMA_SUM(118), WGMMA_SUM(119), WGMMA_SUM(120), WGMMA_SUM(121), WGMMA_SUM(122), WGMMA_SUM(123), \
    WGMMA_SUM(124), WGMMA_SUM(125), WGMMA_SUM(126), WGMMA_SUM(127)
#define WGMMA_OF(columns, type, shape, transposed, one, two, three)                                                     \
    if constexpr (COLUMNS == columns && TYPE == Mma::type)                                                              \
        asm volatile("{.reg .pred add; setp.ne.b32 add, " three ", 0; wgmma.mma_async.sync.aligned.m64n" #columns shape \
                     " {" WGMMA_NAMES_##columns "}, " one ", " two ", add, 1, 1" transposed ";}"                        \
                     : WGMMA_SUMS_##columns : "l"(eight_rows | a), "l"(eight_rows | b), "r"(add))
#define WGMMA(columns, one, two, three)                                                                                 \
    WGMMA_OF(columns, tf32, "k8.f32.tf32.tf32", "", one, two, three);                                                   \
    WGMMA_OF(columns, fp16, "k16.f32.f16.f16", ", 0, 0", one, two, three);                                              \
    WGMMA_OF(columns, bf16, "k16.f32.bf16.bf16", ", 0, 0", one, two, three)

// Ask for sums = a * b, or sums += a * b; they are there after wgmma_wait. 64 rows x COLUMNS columns, by operands in units
// of 16 bytes.
template <Mma TYPE, int COLUMNS>
__device__ __forceinline__ void wgmma(float *sums, unsigned a, unsigned b, int add)
{
    static_assert(COLUMNS % 8 == 0 && COLUMNS <= 256, "a product of warpgroups is at most 256 columns wide");
    const unsigned long long eight_rows = 8ull << 32;   // units from eight rows to the next
    WGMMA(8, "%4", "%5", "%6");
    WGMMA(16, "%8", "%9", "%10");
    WGMMA(24, "%12", "%13", "%14");
    WGMMA(32, "%16", "%17", "%18");
    WGMMA(40, "%20", "%21", "%22");
    WGMMA(48, "%24", "%25", "%26");
    WGMMA(56, "%28", "%29", "%30");
    WGMMA(64, "%32", "%33", "%34");
    WGMMA(80, "%40", "%41", "%42");
    WGMMA(96, "%48", "%49", "%50");
    WGMMA(112, "%56", "%57", "%58");
    WGMMA(128, "%64", "%65", "%66");
    WGMMA(160, "%80", "%81", "%82");
    WGMMA(192, "%96", "%97", "%98");
    WGMMA(224, "%112", "%113", "%114");
    WGMMA(256, "%128", "%129", "%130");
}
